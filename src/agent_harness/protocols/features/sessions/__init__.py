"""Steps of every session of a feature project, for every kind of work.

run, locking, recover sessions one after the other prepare, actions one session, up to verification open_session,
checkpoints records written before an agent starts accept, wip, finalization end of a session
"""
