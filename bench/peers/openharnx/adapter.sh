#!/bin/sh
# The existing tests are locked; a given test is the acceptance test. Only pytest projects are supported.
ohx() { "$PEER/bin/ohx" "$@"; }
case "$SELFTEST_PROOF" in *pytest*) ;; *) echo "not run: it supports pytest only, and this check is another kind"; exit 1 ;; esac
python3 -m venv --system-site-packages --without-pip --symlinks .venv
site=$(echo .venv/lib/python3*/site-packages)
python3 -c 'import os, pytest; print(os.path.dirname(os.path.dirname(pytest.__file__)))' >"$site/pytest.pth"
echo "$PWD/src" >"$site/almanac.pth"
printf '.venv/\n' >>.git/info/exclude
if [ -f tests/test_numerals.py ]; then
  printf 'python = ".venv/bin/python"\n' >ohx.toml
  ohx init --sandbox none || exit
  git add -A && git commit -q -m settings
  ohx contract new --title Numerals --summary numerals --mode task --acceptance tests/test_numerals.py --accept --sandbox none || exit
else
  printf 'python = ".venv/bin/python"\n' >ohx.toml
  ohx init --lock-tests --sandbox none || exit
fi
git add -A && git commit -q -m contract
sh -c "$SELFTEST_AGENT" || exit
ohx verify --sandbox none
