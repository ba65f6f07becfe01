"""One run of a task with limited time and cost (a slice): lease, agent, output, limits, fallback, checkpoint file."""
