#!/usr/bin/env bash
# Hold a lock from a shell: hold.sh NAME [OPTION...]
#
# For a single command use `holdfast run`. This is for scripts that do several things
# under one lock: it is released when the script and its step have ended, however that
# happens. When the lock is lost, or its helper is killed, ended or stopped, the script
# ends its step and itself.
#
# STEPS is how many steps the work has, PAUSE the seconds that each takes.
set -euo pipefail

set -m # a signal to this script does not reach the helper, which would release the lock before the step has ended
coproc HOLD { exec holdfast hold --commands "${@:2}"; }
set +m
helper=$HOLD_PID
exec {said}<&"${HOLD[0]}" {say}>"/dev/fd/${HOLD[1]}" {HOLD[1]}>&-
name=${1//\\/\\\\}
echo '{"command":"acquire","id":"1","lock":"'"${name//\"/\\\"}"'"}' >&"$say"
while read -r line <&"$said" || line="the helper has ended"; do
  case $line in
    *'"event":"held"'*) break ;;
    *'"event":"ready"'* | *'"event":"renewed"'* | *'"event":"at_risk"'*) ;;
    *) echo "no lock: $line" >&2 && exit 75 ;;
  esac
done
token=$(sed 's/.*"token":\([0-9]*\).*/\1/' <<<"$line")

# milliseconds prints the time of the day of a field of $line; trusted prints for how many
# seconds after $line was written the lock can be trusted, if no further line says so. It fails
# if that time is over.
milliseconds() {
  local time=${line#*\"$1\":\"*T}
  time=${time%%Z*}
  local fraction=${time:9}000
  echo $(((10#${time:0:2} * 3600 + 10#${time:3:2} * 60 + 10#${time:6:2}) * 1000 + 10#${fraction:0:3}))
}
trusted() {
  local left=$(((until - $(milliseconds time) + 86400000) % 86400000 + 1))
  ((left < 80000000)) || return # more is a time before
  printf '%d.%03d' $((left / 1000)) $((left % 1000))
}

# What ends the lock: a line that says so, and "released" too, since nothing below asks for
# that while it is watched; the end of the helper's output; and no renewal in time.
trap 'echo "the lock is lost: stopping" >&2; kill -9 "$helper" 2>/dev/null || :; exit 76' USR1
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
main=$$
{
  until=$(milliseconds deadline)
  while left=$(trusted) && read -r -t "$left" line; do
    case $line in
      *'"event":"lost"'* | *'"event":"released"'* | *'"event":"closed"'*) break ;;
      *'"event":"renewed"'*) until=$(milliseconds deadline) ;;
    esac
  done
  kill -USR1 "$main"
} <&"$said" {say}>&- &

# work runs one step, as a group of processes without input. It waits in such a way that the traps need not wait for
# the step. The step inherits $say (but not what the shell opened for coproc): so if this script is killed, the helper
# holds the lock until the step has ended.
work() {
  local status=0
  set -m
  "$@" </dev/null &
  set +m
  wait "$!" || status=$?
  end
  return "$status"
}

# end ends the step with all that it has started. The lock is released only after this.
end() {
  to_step -TERM || return 0
  for _ in {1..10}; do
    to_step -0 || return 0
    sleep 0.1
  done
  to_step -KILL || :
}
to_step() { kill "$1" -- "-$!" 2>/dev/null; }
close() { echo '{"command":"close"}' >&"$say" || :; } 2>/dev/null
trap 'trap "" HUP INT TERM USR1 PIPE; end; close' EXIT # a second signal does not interrupt the end

for ((step = 0; step < ${STEPS:-3}; step++)); do
  echo "step $step under token $token"
  work sleep "${PAUSE:-0}"
done

trap '' USR1 PIPE # from here on the end of the lock is asked for
close
wait "$helper"
echo "released"
