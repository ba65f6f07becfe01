# lie: is wrong only in the folder where it was built
# on: tasks long
# proof: script

right_only_when os "os.getcwd() != '$PWD'"
finish
