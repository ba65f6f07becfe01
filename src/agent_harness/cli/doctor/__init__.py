"""``harness doctor``: ``command`` asks and renders, ``checks`` looks at what lies beside the task list."""
