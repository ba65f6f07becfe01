"""The way of a session: what every kind of work has in common, from its checkpoint to its end.

    work             what a protocol answers about one piece of work; how the kinds differ, as one table
    engine           turn -> ruling -> fix round | accepted | rejected | unfinished; the only caller of ``supervise``
    turn_end         what the end of a turn asks of a repository: branch, operation, other places, settings
    limits           what bounds a session: time, context, progress, money
    ledger           what was said of each claim, for ever
    provider_retry   what is done when the provider does not serve the agent

Source: docs/architecture.md.
"""
