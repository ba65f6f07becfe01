"""The commands that make a machine and its agent clients ready, and say what is wrong; how often options may be given."""
