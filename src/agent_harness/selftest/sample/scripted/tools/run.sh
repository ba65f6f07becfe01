. tools/env.sh
exec python3 -m pytest -q "$@"
