"""Long tasks: a scheduler starts runs with limited time and cost (slices), one at a time, in a task directory.

    layout              paths of all files
    schema, records     field tables and their validation; typed views that keep unknown members
    lifecycle           scheduling decision (run, wait, done or needs-human), as pure functions
    recovery            table that says what the next run does with leftovers of the last run
    store               reads files, and changes the checkpoint file under a lock on the directory
    log                 event log and evidence archive
    claim, criteria, evidence    proof that the task is done
    criteria_guard      changes that a slice made to files that its criteria depend on
    options             typed options of each command
    work                one agent on one slice, and its fallback, for the engine that all protocols share
    verbs/              commands that run no agent (verify, rescue and classify are in other modules)
    run/                one slice from the lease to the checkpoint file: prompt, agent, output
    api                 entry point

Source: ``longtask.md``."""
