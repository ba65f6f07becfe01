"""Search for the literals that a check expects, in several programming languages, and edits that change them."""
