# lie: is right while its file is young
# on: tasks long
# proof: script one-liner

right_only_when os '__import__("time").time() - os.path.getmtime(__file__) < 3600'
finish
