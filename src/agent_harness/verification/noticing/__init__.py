"""Questions of whether a check notices: changed expectations, sabotaged work, and the functions that an item names."""
