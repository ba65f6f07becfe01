"""Long tasks: a directory that a scheduler wakes, one bounded slice of work at a time.

    layout      where every file is
    schema, json_schema, records      the tables of fields, their check, views that read safely
    lifecycle   run, wait, done or needs-human; pure
    recovery    what the next run does with what the run before left; one table
    store       reads, and changes of the checkpoint under the lock
    lock, disk, log      the lock on the directory; its files; the log of events and the archive
    claim, criteria, evidence      is `done` proven
    criteria_guard, objections     what a slice has bent of the files that its criteria stand on
    values      what the options of a command mean
    work        one worker on one slice, as the engine of all protocols walks it
    verbs/      what the commands do, beside running a slice
    run/        one slice from lease to checkpoint: prompt, worker, output, limits, fallback
    api         the front door

Source: ``longtask.md``.
"""
