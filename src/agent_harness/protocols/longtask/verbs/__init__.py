"""Commands of `lth` that run no agent. The commands `verify`, `rescue` and `classify` are in other modules."""
