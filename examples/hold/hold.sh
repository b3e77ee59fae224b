#!/usr/bin/env bash
# Hold a lock from a shell: hold.sh NAME
#
# For a single command use `holdfast run`. This is for scripts that do several things
# under one lock: it is released when the script ends, however that happens.
set -euo pipefail

coproc HOLD { exec holdfast hold "$@"; }
read -r line <&"${HOLD[0]}" || { echo "no lock" >&2; exit 75; }
token=$(sed 's/.*"token":\([0-9]*\).*/\1/' <<<"$line")

for step in 0 1 2; do
  echo "step $step under token $token"
done

exec {HOLD[1]}>&- # the end of input releases the lock
wait "$HOLD_PID"
echo "released"
