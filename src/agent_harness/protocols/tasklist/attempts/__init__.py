"""Attempts at a task: state before, check, end, rollback."""
