"""Tools that the project is made with; none of it is installed."""
