"""Long tasks: a scheduler starts one bounded slice of work at a time in a task directory.

    layout      where every file is
    schema, records      the tables of fields and their check; typed views that keep what they do not know
    lifecycle   run, wait, done or needs-human; pure
    recovery    what the next run does with what the run before left; one table
    store       reads, and changes of the checkpoint under the lock on the directory
    log         the log of events and the archive
    claim, criteria, evidence      is `done` proven
    criteria_guard      what a slice has bent of the files that its criteria stand on
    options     the options of each command, typed
    work        one worker on one slice, and another in its place, as the engine of all protocols walks them
    verbs/      what the commands do, beside running a slice
    run/        one slice from lease to checkpoint: prompt, worker, output, checkpoint
    api         the front door

Source: ``longtask.md``.
"""
