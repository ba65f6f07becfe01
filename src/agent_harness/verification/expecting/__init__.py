"""Search for the literals that a check expects, by programming language, and edits that change their values."""
