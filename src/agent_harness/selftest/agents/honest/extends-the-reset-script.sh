# honest: resets what is new as well, and a person agrees
# project: scripted
# answer: accept-change

right
printf 'rm -rf cache\n' >> reset.sh
right_tests
finish
