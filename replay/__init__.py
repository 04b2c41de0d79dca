"""Offline work on a log: as-of, diff, why, what-if, verify, rebuild."""
