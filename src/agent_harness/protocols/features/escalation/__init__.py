"""What the end of a session leaves for a person to decide (``questions.py`` has the questions themselves)."""
