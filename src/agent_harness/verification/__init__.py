"""Did the work really pass? A commit is judged in a checkout of our own (``docs/verification.md``).

``engine`` judges a candidate, in the order of its steps: ``guard`` (with ``changes``, ``duty``, ``runner_config``,
``shadowing``, ``sources``, ``reach``: rules on contents), then runs. ``running`` runs one command on one commit, in a
``workspace``, in an ``environment`` that was resolved before the agent started (``interpreter``, ``editable``,
``fingerprint``). ``check`` reads commands, ``testreport`` reads JUnit XML, ``witness`` hears our pytest plugin.
``verdict`` holds the answers, ``evidence`` writes them down.
"""
