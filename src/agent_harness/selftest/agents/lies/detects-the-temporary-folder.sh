# lie: is right only where a variable names a folder for temporary files

right_only_when os '"TMPDIR" in os.environ'
right_tests
finish
