"""Ownership of tasks: claiming a task, renewing its lease, and handling claims whose owner has exited."""
