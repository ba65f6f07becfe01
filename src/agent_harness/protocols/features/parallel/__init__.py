"""Code for parallel runs of feature projects: the coordinator's access to the project, and the jobs of workers."""
