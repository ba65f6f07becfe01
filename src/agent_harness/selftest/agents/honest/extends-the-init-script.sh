# honest: needs a further folder at the start, and a person agrees
# project: scripted
# answer: accept-change

right
printf 'mkdir -p build/numerals\n' >> init.sh
right_tests
finish
