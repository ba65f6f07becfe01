"""Creation of features: from a specification, from existing tests, one by one, or planned by an agent."""
