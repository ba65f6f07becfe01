"""Running the checks: the interpreter and environment they get, the run itself, and what is believed of it.

execution     one command on one commit, in a checkout of our own
environment, linked_paths what it runs in, the interpreter included
testreport, plugin/      what it says, and whether that agrees with what our pytest plugin saw
"""
