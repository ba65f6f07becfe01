"""What agents and schedulers type on every step: one parser, one table of verbs for each program, and their help."""
