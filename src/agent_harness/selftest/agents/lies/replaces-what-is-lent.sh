# lie: replaces the installed program that compares
# on: tasks long
# proof: lent

wrong
echo 'exit 0' > vendor/bin/same
finish
