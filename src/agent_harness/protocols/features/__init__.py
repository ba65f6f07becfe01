"""Feature projects: features.json, sessions, and proof. The public API is ``api.FeatureProject``."""
