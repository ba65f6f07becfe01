"""Management of many projects on one machine: the number of agents for each project, and the start of their runs.

    sharing      computes each project's share of the agents
    roster       reads and changes fleet.yaml
    supervisor   starts and scales runs; never writes to a project
    status       reads only the snapshots of the runs

Source: ``scale.md`` 10."""
