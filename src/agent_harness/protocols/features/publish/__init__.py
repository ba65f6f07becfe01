"""Publishing: pushes after work is accepted, with a retry after a rebase, and mirrored issues on GitHub."""
