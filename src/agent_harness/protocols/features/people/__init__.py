"""What people do with a project: verify, hand off, abort, answer questions, look at its health, keep it maintained."""
