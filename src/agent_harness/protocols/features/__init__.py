"""Implementation of feature projects: feature list, sessions, verification. Public API: ``api.FeatureProject``."""
