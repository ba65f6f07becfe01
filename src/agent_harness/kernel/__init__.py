"""Base modules that all other packages use. They need only the standard library and import no protocol.

They provide seven guarantees:

1. State survives a crash.
2. History is append-only.
3. Each item has one owner at a time.
4. Each step can be undone, and undoing a step loses nothing.
5. The order of work respects dependencies.
6. Each failure has a name and a next step.
7. No command hangs, and no secret is written.

    Pure modules   clock, graph, lease, failures, retry, json.jsontext
    Side effects   files, journal, lock, owner, process, git, snapshot, redact, root, rate_limits, trusted_state

A pure module never imports a module with side effects on disk, git or processes."""
