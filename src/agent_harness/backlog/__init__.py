"""Import and export of other programs' task lists, through one common form of work item. ``docs/import.md``."""
