"""The session engine: an append-only event log and the sessions a gateway keeps on it."""
