"""Verification of a candidate commit in a separate checkout, to decide whether the work really passes.

    judge             the verdict on a candidate, step by step
    guard             rules on protected files
    protected_files   the protected files of each protocol
    changes           the changes of a candidate
    runner_config     rules on test runner settings
    sources           rules on Python test code
    runner            runs of one command on one commit, in an environment resolved before the agent started
    checkout          the checkout in which a command runs
    command           verification by any shell command
    check             parser of check commands
    verdict           results: findings, runs and verdicts

Source: ``docs/verification.md``.
"""
