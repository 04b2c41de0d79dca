"""Importing: sessions of another program become events here, with their own ids and times (V18)."""
