"""Long tasks: a directory that a scheduler wakes, one bounded slice of work at a time.

    layout      where every file is
    schema, shape, records      the tables of fields, their check, views that read safely
    lifecycle   run, wait, done or needs-human; pure
    recovery    what the next run does with what the run before left; one table
    store       reads, and changes of the checkpoint under the lock
    dirlock, disk, log      the lock on the directory; its files; the log of events and the archive
    reading, ticking, recording, gathering, history, status, listing, starting      what the verbs do
    claim, usage      is `done` proven; what a slice used
    brief, adapters, forbidden, criteria, classifier, evidence      what a slice is made of
    runner, runlock, slice, outcome, fallback, handoff      one slice from lease to checkpoint
    health, recipe      what a task needs; the job that wakes it
    api         the front door

Source: ``longtask.md``.
"""
