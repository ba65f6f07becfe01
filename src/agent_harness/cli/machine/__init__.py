"""The commands that make a machine and its agent clients ready, and say what is wrong: setup, doctor, agents, hooks."""
