"""Task lists: ``harness-tasks.json``, worked down by an agent in its own client or by ``harness run``.

    layout      where every file is
    records     what the state holds, read safely
    selection   what can be done next, and what is left; pure
    lifecycle   the legal states of a task and its moves; pure
    recovery    what to do with an interrupted task; one table
    progress    the log, line by line
    store       reads, and changes under the lock; hooks may use this and what stands above
    workers/    who is asking: id, session, claim token, work tree; sessions and their leases
    claims/     claiming a task, holding on to it, and claims that have expired
    attempts/   one attempt: its work tree, commit, validation, end, rollback, recovery, rescue
    runner/     `harness run` and `harness drive`
    planning, status, spending, proven, damage      the list itself, and what is known of it
    api         the front door

Source: ``tasklist.md``.
"""
