# honest: completes its task by the command
# on: tasks

right
harness task checkpoint "$HARNESS_TASK_ID" 1/1 "built" > /dev/null
harness task complete "$HARNESS_TASK_ID" -m "Build the numerals" > /dev/null
