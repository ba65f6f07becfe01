"""Creation of features from a specification, from an existing project, by the user, or by a planning agent."""
