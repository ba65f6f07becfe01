"""Publishing: pushes, held back until work is accepted, retried after a rebase; issues on GitHub."""
