# lie: completes the task itself, then takes the work away
# on: tasks
# attempts: 2

right
git add -A; git commit -qm "Build it"
harness task complete "$HARNESS_TASK_ID" || true
wrong
git add -A; git commit -qm "Tidy up"
