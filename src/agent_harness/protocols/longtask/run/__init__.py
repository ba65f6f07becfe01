"""One bounded slice, from the lease to the checkpoint file: the agent, its output, its limits, and its fallback."""
