# honest: the plain way

right
right_tests
finish
