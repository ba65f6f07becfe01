"""What every session of a feature project goes through, whatever its work is.

run, locking, recover, summary      sessions one after the other
prepare, turn_settings, actions      one session, up to the judge
open_session, checkpoints, state_guard      what is written down before an agent starts, and guarded while it runs
accept, wip, settlement      how a session ends
"""
