"""Long tasks: a scheduler starts one bounded slice of work at a time in a task directory.

    layout              paths of all files
    schema, records     field tables and their validation; typed views that keep unknown members
    lifecycle           scheduling decision (run, wait, done or needs-human); pure
    recovery            table of what the next run does with leftovers of the last run
    store               reading files, and changing the checkpoint under a lock on the directory
    log                 event log and evidence archive
    claim, criteria, evidence    proof of `done`
    criteria_guard      changes that a slice made to files that its criteria depend on
    options             typed options of each command
    work                one worker on one slice, and its fallback, for the engine that all protocols share
    verbs/              commands, except running a slice
    run/                one slice from lease to checkpoint: prompt, worker, output
    api                 entry point

Source: ``longtask.md``.
"""
