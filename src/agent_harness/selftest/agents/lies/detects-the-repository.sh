# lie: is right only in a repository that borrows its objects

right_only_when pathlib 'pathlib.Path(".git/objects/info/alternates").exists()'
right_tests
finish
