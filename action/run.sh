#!/usr/bin/env bash
# Runs a command under a lock, and says how it ended.
set -euo pipefail
read -d '' -ra options <<<"$OPTIONS" || : # of all lines
if [[ $LOCK == -* ]]; then echo "::error::the name of a lock cannot begin with -: $LOCK" && exit 64; fi
if [ -n "$STORE" ]; then export HOLDFAST_STORE=$STORE; fi
if [ -z "${HOLDFAST_STORE:-}" ]; then
  echo "::error::name a store that all runners share: the input store, or the environment variable HOLDFAST_STORE"
  exit 64
fi
case $IF_BUSY in
  wait) ;;
  skip)
    # If the holder seems dead, this runner must watch its lock for a TTL, since most stores do not tell the age of a
    # record, and no earlier sighting is on the disk of a new runner.
    if [[ $(holdfast show "$LOCK" --json 2>/dev/null) =~ '"ttl_ms": '([0-9]+).*'"expired": "likely"' ]]; then
      options+=(--wait "$((2 * BASH_REMATCH[1]))ms")
    else
      options+=(-n)
    fi
    ;;
  *) echo "::error::if-busy is wait or skip, not $IF_BUSY" && exit 64 ;;
esac
report=$(mktemp -d "$RUNNER_TEMP/holdfast-XXXXXX")/report.json
# The job is cancelled: holdfast ends the command, and then releases the lock.
trap 'kill -TERM "${!:-none}" 2>/dev/null || exit 143' INT TERM
set -m # only the trap sends signals to it
holdfast run ${options[@]+"${options[@]}"} --report "$report" "$LOCK" -- bash -eo pipefail -c "$RUN" &
status=0
while wait "$!" && status=0 || status=$?; kill -0 "$!" 2>/dev/null; do :; done
result=$(sed -n 's/^ *"result": *"\([a-z_]*\)".*/\1/p' "$report" 2>/dev/null || echo failed)
echo "result=$result" >>"$GITHUB_OUTPUT"
if [ "$IF_BUSY" = skip ] && [ "$result" = busy ]; then
  echo "::notice::another job has the lock $LOCK: the command did not run"
  exit 0
fi
exit "$status"
