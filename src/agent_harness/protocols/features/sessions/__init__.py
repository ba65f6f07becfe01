"""Steps of every session of a feature project, regardless of the kind of work.

run, locking, recover              a sequence of sessions
prepare, actions                   one session, up to the verification
open_session, checkpoints          records that are written before an agent starts
accept, wip, finalization          the end of a session
"""
