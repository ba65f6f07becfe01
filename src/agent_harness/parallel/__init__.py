"""Several agents at once on one project: ``harness run --workers N``.

items           interface of a protocol, and the values that coordinator and workers exchange
plan            state of the run, folded from its ledger                                       rule
decision        next steps of a plan                                                           rule
batching        size of a batch, and search for its failing change                             rule
ledger          append-only journal of a run
workspaces      a repository and work tree for each agent, which shares the project's objects
merge_queue     combination of candidates on a head, as objects; moves and pushes of the branch
requests        requests of a person to a run, and their way to the coordinator
run             a run before its coordinator, and its preview
coordinator     the one writer of the plan: jobs out, results in, landings
worker_process  process that executes one job, in a workspace
"""
