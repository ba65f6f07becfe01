"""Publishing of accepted work: pushes, which are retried after a rebase, and GitHub issues."""
