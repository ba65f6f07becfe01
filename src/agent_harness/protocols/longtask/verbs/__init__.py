"""Commands of `lth`, except the one that runs a slice."""
