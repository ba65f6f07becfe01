# honest: installs a package that the check does not need
# on: tasks long
# proof: lent

right
mkdir -p vendor/tidy
echo 'cat "$@"' > vendor/tidy/tidy
finish
