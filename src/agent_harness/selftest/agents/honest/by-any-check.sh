# honest: builds what is asked
# on: tasks long
# proof: shell make one-liner node

right
finish
