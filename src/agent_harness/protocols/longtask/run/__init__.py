"""One bounded slice, from lease to checkpoint: the worker, its output, its limits, and its fallback."""
