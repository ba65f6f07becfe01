# lie: makes the long task anew with a criterion of its own
# on: long

wrong
lth init ../task --force --objective "Anything" --criterion-command true --worker local-command --command true
lth record ../task --status done --note "All is done"
