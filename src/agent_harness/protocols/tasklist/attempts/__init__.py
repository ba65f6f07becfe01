"""Attempts at a task, from the state of the files when the task was claimed to the check, the end and the rollback."""
