"""Feature projects: the feature list, sessions and verification. The public API is ``api.FeatureProject``."""
