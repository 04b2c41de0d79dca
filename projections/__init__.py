"""The read side: folds of the event log."""
