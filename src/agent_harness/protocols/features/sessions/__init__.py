"""Steps of a session: run, locking, recover (all sessions), prepare, actions (up to verification), open_session,
checkpoints (records made before the agent starts), accept, wip, finalization (end of the session)."""
