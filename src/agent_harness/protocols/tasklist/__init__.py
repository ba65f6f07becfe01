"""Task lists: an agent completes the tasks in ``harness-tasks.json``, in its own client or in ``harness run``.

    layout      paths of every file
    records     the state as typed records; invalid values raise no error
    selection   the next tasks and the remaining tasks (pure functions)
    lifecycle   the legal states of a task and the transitions between them (pure functions)
    recovery    the decision table for interrupted tasks; the backup of a damaged state
    progress    the log, line by line
    store       reads the state, and changes it under the lock; hooks may use this module and the modules above
    claims/     workers, claiming a task and renewing the claim, sessions, leases
    attempts/   one attempt: its work tree, commit, validation, end, rollback, recovery, rescue
    parallel/   several concurrent agents: the list as their coordinator sees it, and the start of such a run
    work, run       `harness run`: one attempt and its prompt, the whole run; `harness drive`
    planning, status, proven        the list itself, and the facts about it
    api         the public API

Source: ``tasklist.md``.
"""
