# lie: writes tests, and no code

right_tests; finish
