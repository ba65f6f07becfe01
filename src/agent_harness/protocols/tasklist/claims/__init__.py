"""Ownership of tasks: claiming, renewing the lease, and claims whose owner is gone."""
