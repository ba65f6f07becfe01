"""Actions of a person: verify features, take over, abort, answer questions, measure health, maintain and undo."""
