"""Creation of features: from a specification, from an existing project, one by one, or planned by an agent."""
