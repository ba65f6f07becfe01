"""Long tasks: a scheduler starts one bounded slice of work at a time in a task directory.

    layout      the paths of all files
    schema, records      the tables of fields and their check; typed views that keep unknown members
    lifecycle   run, wait, done or needs-human; pure
    recovery    one table of what the next run does with leftovers of the last one
    store       reads, and changes of the checkpoint under the lock on the directory
    log         the log of events and the archive
    claim, criteria, evidence      the proof of `done`
    criteria_guard      changes of a slice to files that its criteria depend on
    options     the options of each command, typed
    work        one worker on one slice, and its fallback, as work for the engine of all protocols
    verbs/      the commands, except running a slice
    run/        one slice from lease to checkpoint: prompt, worker, output, checkpoint
    api         the entry point

Source: ``longtask.md``.
"""
