"""Supervision of a running agent: starts a turn, reads its events, steers or stops the agent, and returns an
``Outcome``."""
