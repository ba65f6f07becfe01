"""Task lists: ``harness-tasks.json``, whose tasks an agent completes in its own client or in ``harness run``.

    layout      paths of every file
    records     the state as typed records, tolerant of invalid values
    selection   next tasks and remaining tasks; pure
    lifecycle   the legal states of a task and its transitions; pure
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
