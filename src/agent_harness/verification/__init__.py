"""Did the work really pass? A commit is judged in a checkout of our own (``docs/verification.md``).

``judge`` judges a candidate, in the order of its steps: ``guard`` by the protected files of its protocol
(``protected_files``), with ``changes``, ``runner_config`` and ``sources``: rules on contents; then runs. ``runner``
runs one command on one commit, in a ``checkout``, in an environment that was resolved before the agent started.
``command`` has what any shell command needs. ``check`` reads commands, ``verdict`` holds the answers.
"""
