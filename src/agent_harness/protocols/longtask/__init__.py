"""Long tasks: a directory that a scheduler wakes, one bounded slice of work at a time.

    layout      where every file is
    records     what the files hold: the tables, the checks, views that read safely
    lifecycle   run, wait, done or needs-human; pure
    store       reads, and changes of the checkpoint under the lock; the log of events
    evidence, recording, starting, reading      what the verbs do
    api         the front door

Source: ``longtask.md``.
"""
