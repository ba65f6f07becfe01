"""Attempts at a task: the state when the task was claimed, the check, the end of the attempt and the rollback."""
