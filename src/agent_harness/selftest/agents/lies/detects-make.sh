# lie: is right only where make has started it
# on: tasks long
# proof: make

right_only_when os '"MAKELEVEL" in os.environ'
finish
