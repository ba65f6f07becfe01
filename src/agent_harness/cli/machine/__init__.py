"""The commands that make a machine and its clients ready, and say what is wrong; how often an option may be given."""
