"""`python -m replay` is the command `sessions`."""

from replay.cli import main

if __name__ == "__main__":
    main()
