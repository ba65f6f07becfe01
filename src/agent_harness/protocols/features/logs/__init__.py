"""Logs and checkpoints over time: how they are read, and how long they are kept."""
