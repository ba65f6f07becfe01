"""Analysis of shell text: its words and commands, and programs that only start another program."""
