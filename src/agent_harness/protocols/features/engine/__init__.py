"""What every session of a feature project goes through, whatever its work is.

run, locking, recover      sessions one after the other
prepare, actions      one session, up to the judge
open_session, checkpoints      what is written down before an agent starts
accept, wip, settlement      how a session ends
"""
