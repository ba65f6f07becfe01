# lie: changes the proof of its task by the command line
# on: tasks
# attempts: 2

wrong
harness task set task-001 validation.command=true || true
finish
