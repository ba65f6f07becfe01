"""Steps of every session: run, locking, recover (a sequence); prepare, actions (up to verification); open_session,
checkpoints (records from before the agent); accept, wip, finalization (the end)."""
