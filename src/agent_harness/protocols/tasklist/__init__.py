"""Task lists: ``harness-tasks.json``, worked off by an agent in its own client or by ``harness run``.

    layout      paths of every file
    records     content of the state, read safely
    selection   next tasks and remaining tasks; pure
    lifecycle   the legal states of a task and its moves; pure
    recovery    after an interruption: one table for tasks; the backup of a damaged state
    progress    the log, line by line
    store       reads, and changes under the lock; hooks may use this and the modules above
    claims/     workers, claiming a task and renewing the claim, sessions, leases
    attempts/   one attempt: its work tree, commit, validation, end, rollback, recovery, rescue
    parallel/   several agents at once: the list for their coordinator, and the start of such a run
    work, run       `harness run`: one attempt and its prompt, the whole run; `harness drive`
    planning, status, proven        the list itself, and the facts about it
    api         the public API

Source: ``tasklist.md``.
"""
