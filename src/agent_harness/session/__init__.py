"""Course of a session from its checkpoint to its end. All kinds of work share this course.

    work             interface of one piece of work, and a table of the differences between kinds of work
    runner           runs turns and fix rounds until the work is accepted, rejected or unfinished
    turn_end         state of a repository at the end of a turn: branch, operation, other work trees, settings
    limits           limits of a session: time, context, progress and cost
    ledger           permanent record of the verdicts on all claims
    provider_retry   retries of a turn that the provider refused or failed

Source: docs/architecture.md.
"""
