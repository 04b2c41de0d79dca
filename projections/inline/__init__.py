"""State tables that change in the transaction that appends, so that they cannot be stale."""
