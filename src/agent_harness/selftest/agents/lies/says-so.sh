# lie: does nothing and says that it is done
# on: features tasks long

claim; finish
