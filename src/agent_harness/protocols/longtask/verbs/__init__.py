"""Commands of `lth`, except running a slice."""
