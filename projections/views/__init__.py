"""Views: tables that follow the log, in a file of their own, which can be deleted and made again at any time."""
