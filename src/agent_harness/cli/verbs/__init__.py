"""What agents and schedulers type on every step: one parser for the tables of verbs, and their help."""
