"""Modules for the steps of a session. In every step: run, locking, recover. Before the agent starts: prepare,
open_session, checkpoints. While the agent works: actions. At the end: accept, wip, finalization."""
