"""Creation of features: from a specification, by adoption, one by one, or planned by an agent."""
