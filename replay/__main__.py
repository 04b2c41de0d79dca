"""`python -m replay` is the command `sessions`."""

from replay.cli import main

main()
