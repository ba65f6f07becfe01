"""Task lists: ``harness-tasks.json``, worked down by an agent in its own client or by ``harness run``.

    layout      where every file is
    records     what the state holds, read safely
    selection   what can be done next, and what is left; pure
    lifecycle   the legal states of a task and its moves; pure
    recovery    after an interruption: one table for tasks; the backup of a damaged state
    progress    the log, line by line
    store       reads, and changes under the lock; hooks may use this and what stands above
    claims/     who is asking, claiming a task and holding on to it, sessions, leases
    attempts/   one attempt: its work tree, commit, validation, end, rollback, recovery, rescue
    parallel/   several agents at once: the list as their coordinator asks it, and how such a run begins
    work, run       `harness run`: one attempt and what its agent reads, the whole run; `harness drive`
    planning, status, proven        the list itself, and what is known of it
    api         the front door

Source: ``tasklist.md``.
"""
