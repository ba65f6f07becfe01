"""Publication of accepted work: pushes to the remote, and GitHub issues. A rejected push is retried after a rebase."""
