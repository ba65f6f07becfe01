# honest: says done by the command of long tasks
# on: long

right
lth record ../task --status done --note "Nothing is left"
