"""Commands that set up a machine and its agent clients, report problems, or manage several projects."""
