"""Feature projects: features.json, sessions, and proof. The front door is ``api.FeatureProject``."""
