"""Shared base of all packages: seven promises, on the standard library alone. No protocol is imported here.

1. state survives a crash  2. history is append-only  3. one owner at a time  4. any step can be undone, and nothing is
lost by undoing  5. order respects dependencies  6. every failure has a name and a next step  7. no command hangs, and
no secret is written.

Rules (values in, values out): clock, graph, lease, failures, retry, json.jsontext. Effects (disk, git, processes):
files, journal, lock, owner, process, git, snapshot, redact, root, rate_limits, trusted_state. Rules never import
effects.
"""
