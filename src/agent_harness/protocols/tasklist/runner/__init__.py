"""Working a list down: ``run`` (with agents), ``run_attempt`` (one of them), ``drive`` (restarts a client)."""
