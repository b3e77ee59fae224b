#!/usr/bin/env bash
# Hold a lock from a shell: hold.sh NAME
#
# For a single command use `holdfast run`. This is for scripts that do several things
# under one lock: it is released when the script ends, however that happens. When the
# lock is lost, or its holder killed, the script ends its step and itself.
#
# STEPS is how many steps the work has, PAUSE the seconds that each takes.
set -euo pipefail

coproc HOLD { exec holdfast hold "$@"; }
holder=$HOLD_PID
exec {told}<&"${HOLD[0]}"
read -r line <&"$told" || { echo "no lock" >&2; exit 75; }
token=$(sed 's/.*"token":\([0-9]*\).*/\1/' <<<"$line")

# The end of the holder's output is the end of the lock, unless it said "released".
trap 'echo "the lock is lost: stopping" >&2; kill $(jobs -p) 2>/dev/null; exit 76' USR1
main=$$
{
  while read -r line; do
    case $line in
      *'"event":"released"'*) exit ;;
      *'"event":"lost"'*) break ;;
    esac
  done
  kill -USR1 "$main"
} <&"$told" &

# work runs one step. It waits in such a way that the trap need not wait for the step.
work() {
  "$@" &
  wait "$!"
}

for ((step = 0; step < ${STEPS:-3}; step++)); do
  echo "step $step under token $token"
  work sleep "${PAUSE:-0}"
done

exec {HOLD[1]}>&- # the end of input releases the lock
wait "$holder"
echo "released"
