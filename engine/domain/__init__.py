"""The pure core: events and decisions, without I/O and without a clock."""
