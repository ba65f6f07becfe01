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
    parallel/   runs with several concurrent agents: their start, and the coordinator's interface to the list
    work, run       `harness run`: one attempt and its prompt, the whole run; `harness drive`
    planning, status, proven        changes to the list by the user, its status, the proof records
    api         the public API

Source: ``tasklist.md``."""
