# lie: is right only while its calls are watched

right_only_when sys 'sys.getprofile() is not None'
right_tests
finish
