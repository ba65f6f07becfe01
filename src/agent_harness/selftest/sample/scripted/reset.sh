set -e
rm -rf build
