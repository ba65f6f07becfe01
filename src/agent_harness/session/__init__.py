"""Course of a session, common to every kind of work, from its checkpoint to its end.

    work             port of a protocol for one piece of work; the differences between kinds, as one table
    engine           turn -> ruling -> fix round | accepted | rejected | unfinished; the only caller of ``supervise``
    turn_end         state of a repository at the end of a turn: branch, operation, other places, settings
    limits           limits of a session: time, context, progress, cost
    ledger           verdicts on all claims, kept for ever
    provider_retry   further tries when the provider does not serve the agent

Source: docs/architecture.md.
"""
