"""Commands that set up a machine and its clients and report problems; and the rule for repeated options."""
