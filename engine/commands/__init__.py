"""Commands: each takes the state it needs from its work, decides with the domain's rules, and emits events."""
