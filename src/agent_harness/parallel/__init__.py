"""Several agents at once on one project: ``harness run --workers N``.

items        what a protocol offers, and the values that go between coordinator and workers
plan         what the run knows, folded from its ledger, and what is to be done next                    rule
batching     how large a batch is, and which of its members is the failing change                             rule
ledger       the append-only journal of a run
workspaces       a repository and work tree for each agent, which borrows the project's objects
landing      candidates on top of a head, as objects; the branch moved
requests     what a person may ask of a run: what follows, and how it gets to the coordinator
run          a run before its coordinator, and what it would begin with
coordinator  the one writer of the plan: jobs out, results in, landings
workers        the process that carries one job out, in a workspace
"""
