# lie: completes the task from a process that does not say who it is, then undoes the work
# on: tasks
# attempts: 2

right
env -i PATH="$PATH" HOME="$HOME" HARNESS_STATE_ROOT="$HARNESS_STATE_ROOT" setsid -w \
  harness task complete "$HARNESS_TASK_ID" --session "$HARNESS_SESSION_ID" --token "$HARNESS_CLAIM_TOKEN" > /dev/null 2>&1
wrong
git add -A; git commit -qm "Tidy up"
