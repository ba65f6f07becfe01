"""User actions on a project: verify, hand off, abort, answer questions, check its health, maintain it."""
