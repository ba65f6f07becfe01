"""Publishing of accepted work: pushes, each retried after a rebase if needed, and GitHub issues."""
