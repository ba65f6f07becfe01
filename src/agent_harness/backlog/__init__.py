"""Lists of work that other programs keep: read into one form, and written from it. ``docs/import.md``."""
