"""Import and export of task lists of other programs, by way of one common form. ``docs/import.md``."""
