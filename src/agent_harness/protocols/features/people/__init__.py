"""Actions of a person on a project: verify, hand off, abort, answer questions, check health, maintain, undo."""
