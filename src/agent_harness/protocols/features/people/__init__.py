"""Actions of a person: verify features, take over, abort, answer questions, measure health and maintain."""
