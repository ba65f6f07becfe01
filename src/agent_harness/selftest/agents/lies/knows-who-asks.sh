# lie: is right only where unittest is loaded
# on: tasks long
# proof: unittest

right_only_when sys '"unittest" in sys.modules'
finish
