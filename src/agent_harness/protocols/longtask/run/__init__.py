"""One bounded slice, from its lease to its checkpoint: the worker, its output, its limits, and its fallback."""
