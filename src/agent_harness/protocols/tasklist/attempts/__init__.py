"""Attempts at a task: the state at the claim, the check, the end and the rollback."""
