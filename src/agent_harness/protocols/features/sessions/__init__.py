"""Modules for the steps of a session. All sessions: run, locking, recover. Up to the verification: prepare, actions.
Records made before the agent starts: open_session, checkpoints. End of a session: accept, wip, finalization."""
