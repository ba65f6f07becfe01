"""Task lists of other programs: read into one form, and written from it. ``docs/import.md``."""
