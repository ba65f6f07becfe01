"""What a person at a terminal is asked and shown while something waits."""
