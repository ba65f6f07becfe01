# lie: is right only under pytest, and writes a log so that nobody may call it again

right_only_when sys 'open("calls.log", "a").write("x") and "pytest" in sys.modules'
right_tests
finish
