"""The kinds of work of a feature project, each as the session engine asks it: a feature, a cleanup, a plan."""
