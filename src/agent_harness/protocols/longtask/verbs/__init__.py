"""What the commands of `lth` do, beside running a slice."""
