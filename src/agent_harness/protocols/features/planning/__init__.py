"""Creation of features: from a specification, from an existing project, individually, or planned by an agent."""
