set -e
mkdir -p build
