"""Verification of features: the agent's claims, the verdicts on the claims, and the features that count as proven."""
