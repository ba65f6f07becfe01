"""Execution of checks: selects their interpreter and environment, runs them, and validates their test reports.

execution                   runs one command on one commit, in a checkout made by the harness
environment, linked_paths   the environment of a run, including its interpreter
testreport, plugin/         reports of a run, compared with what the harness's pytest plugin recorded
"""
