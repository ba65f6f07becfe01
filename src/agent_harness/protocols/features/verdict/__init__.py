"""Verification of claims: the agent's claims, the ruling on them, and the features that the harness has proven."""
