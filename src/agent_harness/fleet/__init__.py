"""Many projects on one home: who is in the fleet, how agents are shared, and the supervisor that starts their runs.

``sharing`` is a rule; ``roster`` reads fleet.yaml; ``supervisor`` starts and scales runs and owns nothing of a project;
``status`` reads snapshots only. ``scale.md`` 10.
"""
