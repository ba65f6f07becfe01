"""The scenarios of the feature protocol, through the command line alone."""
