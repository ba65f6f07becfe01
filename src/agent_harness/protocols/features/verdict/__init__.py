"""Verification of features: the agent's claims, the verdicts on them, and the features that count as proven."""
