"""The way of a session: what every kind of work has in common, from its checkpoint to its end.

    work             the six questions that a protocol answers about one piece of work
    policy           how the kinds of work differ, as one literal table
    engine           turn -> ruling -> fix round | accepted | rejected | unfinished
    turn             the turns of the agent under all monitors; the only caller of ``supervise``
    limits           what bounds a session: time, context, progress, money
    provider_retry   what is done when the provider does not serve the agent

Source: docs/architecture.md.
"""
