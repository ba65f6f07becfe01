"""Shell text: its words and commands, and the programs that only start another one."""
