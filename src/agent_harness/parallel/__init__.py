"""Several concurrent agents on one project: ``harness run --workers N``.

items           interface of a protocol, and the values that coordinator and workers exchange
plan            state of the run, computed from its ledger (pure functions)
decision        next steps of a plan (pure functions)
batching        size of a batch, and search for its failing change (pure functions)
ledger          append-only journal of a run
workspaces      a repository and work tree for each agent, which shares the project's objects
merge_queue     merging of candidates as git objects; moves and pushes of the branch
requests        the user's requests to a run, and how they reach the coordinator
run             preparation and preview of a run
coordinator     the only writer of the plan: it starts jobs, collects results and merges proven work
worker_process  process that executes one job at a time, in a workspace
"""
