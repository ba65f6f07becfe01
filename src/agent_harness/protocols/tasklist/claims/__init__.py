"""Ownership of tasks: claiming a task, renewing the claim's lease, and handling claims whose owner has exited."""
