"""Execution of checks: selects their interpreter and environment, runs them, and validates their test reports."""
