# honest: a further variable for all tests, and a person agrees
# project: scripted
# answer: accept-change

right
printf 'TZ=UTC\nexport TZ\n' >> tools/env.sh
right_tests
finish
