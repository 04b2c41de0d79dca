"""Programs to start from, and the demo."""
