"""Verification of claims: the agent's claims, the rulings on claims, and the features that the harness has proven."""
