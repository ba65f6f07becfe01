"""The literals that a check expects, language by language, and other values for them; pure."""
