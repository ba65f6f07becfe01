"""Who works: a worker with its claim token, its sessions, and the session lease of exclusive mode."""
