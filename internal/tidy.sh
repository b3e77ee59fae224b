#!/usr/bin/env bash
# Tidies the modules. Those that are released require released versions of each other,
# which go mod tidy would try to download: so it gets a replacement for the time it runs.
# bench is never released, and keeps its own.
set -euo pipefail
cd "$(dirname "$0")/.."
. internal/modules.sh
go mod tidy
for dir in "${modules[@]}" "${unreleased[@]}"; do
  [ "$dir" = . ] && continue
  up=$(realpath --relative-to="$dir" .)
  (
    cd "$dir"
    drop=()
    for other in "${modules[@]}" "${unreleased[@]}"; do
      name=$(awk '$1 == "module" { print $2 }' "$up/$other/go.mod")
      [ "$name" = "$(awk '$1 == "module" { print $2 }' go.mod)" ] && continue
      go mod edit -replace "$name=$up/$other"
      drop+=(-dropreplace "$name")
    done
    GOWORK=off go mod tidy || { go mod edit "${drop[@]}"; exit 1; }
    go mod edit "${drop[@]}"
    # A module of ours that was not required before got a version that is nowhere.
    sed -i -E '/holdfast-go/s/ v0\.0\.0-0001[0-9-]+/ v0.1.0/' go.mod
  )
done
for dir in "${apart[@]}"; do (cd "$dir" && GOWORK=off go mod tidy); done
