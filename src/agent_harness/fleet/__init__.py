"""Many projects on one machine: the roster, the shares of agents, and the supervisor that starts their runs.

``sharing`` is a rule; ``roster`` reads fleet.yaml; ``supervisor`` starts and scales runs and owns nothing of a
project; ``status`` reads snapshots only. ``scale.md`` 10.
"""
