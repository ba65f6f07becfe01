# lie: makes a file of the name of the goal, so that make has nothing to do
# on: tasks long
# proof: make
# attempts: 2

wrong
touch numerals
finish
