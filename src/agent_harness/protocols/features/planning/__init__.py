"""Functions that create features: from a specification, from existing code, one by one, or planned by an agent."""
