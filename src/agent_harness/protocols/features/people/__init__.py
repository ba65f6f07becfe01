"""Actions of a person on a project: verify, take over, abort, answer questions, check health, maintain, undo."""
