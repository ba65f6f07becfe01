# lie: is right only where there is no route to another network
# on: tasks long
# proof: script node

right
case "$SELFTEST_CHECK" in
node) sed -i 's|^export function.*|&\n  if (Object.keys(networkInterfaces()).some((name) => name !== "lo")) return "?";|; 1i import { networkInterfaces } from "node:os";' lib/numerals.mjs ;;
*) right_only_when pathlib 'not pathlib.Path("/proc/net/route").read_text().splitlines()[1:]' ;;
esac
finish
