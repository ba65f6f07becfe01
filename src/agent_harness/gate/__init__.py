"""The gate: the verdict of the harness on a change that anybody made, without a task list or a feature project.

The gate writes no ref, no setting and no file of the work tree. ``decision`` is the entry point."""
