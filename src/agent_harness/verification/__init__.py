"""Did the work really pass? A commit is judged in a checkout of our own (``docs/verification.md``).

``engine`` judges a candidate, in the order of its steps: ``guard`` (with ``changes``, ``runner_config``, ``sources``:
rules on contents), then runs. ``runner`` runs one command on one commit, in a ``workspace``, in an environment that was
resolved before the agent started. ``command`` judges a plain shell command. ``check`` reads commands, ``verdict`` holds
the answers.
"""
