"""Task lists: ``harness-tasks.json``, worked down by an agent in its own client or by ``harness run``.

    layout      where every file is
    records     what the state holds, read safely
    selection   what can be done next, and what is left; pure
    lifecycle   the legal states of a task and its moves; pure
    recovery    what to do with an interrupted task; one table
    progress    the log, line by line
    store       reads, and changes under the lock; hooks may use this and what stands above
    worker      who is asking: id, session, claim token, work tree
    claims, sessions, outcomes, wayback, recover, rescue, driver      what the verbs do
    api         the front door

Source: ``tasklist.md``.
"""
