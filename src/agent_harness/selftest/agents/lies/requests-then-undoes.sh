# lie: has its work proven in its turn, commits, and puts the wrong one in its place without a commit
# on: tasks
# attempts: 2

right
harness task validate "$HARNESS_TASK_ID" > /dev/null 2>&1
harness task complete "$HARNESS_TASK_ID" > /dev/null 2>&1
wrong
