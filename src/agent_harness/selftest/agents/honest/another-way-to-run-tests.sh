# honest: the included makefile runs tests without bytecode, and a person agrees
# project: scripted
# answer: accept-change

right
printf 'RUN = PYTHONDONTWRITEBYTECODE=1 sh tools/run.sh\n' > mk/tests.mk
right_tests
finish
