#!/usr/bin/env bash
# Formatting, vet, staticcheck, and builds for the systems that are not tested here.
set -euo pipefail
cd "$(dirname "$0")/.."
. internal/modules.sh

echo "== gofmt"
unformatted=$(git ls-files --cached --others --exclude-standard '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
  echo "gofmt would change:" >&2
  echo "$unformatted" >&2
  exit 1
fi

echo "== go vet"
go vet "${packages[@]}"
for dir in "${apart[@]}"; do (cd "$dir" && GOWORK=off go vet ./...); done
for os in darwin windows; do
  echo "== go vet for $os"
  GOOS=$os go vet "${released[@]}" ./examples/...
done

echo "== staticcheck"
tools=$(cache tools)
GOWORK=off GOFLAGS= go build -modfile=internal/tools.mod -o "$tools/staticcheck" honnef.co/go/tools/cmd/staticcheck
# What it knows of the libraries is in the directory that CI keeps.
STATICCHECK_CACHE=$(cache staticcheck)
export STATICCHECK_CACHE
"$tools/staticcheck" "${packages[@]}"
for dir in "${apart[@]}"; do (cd "$dir" && GOWORK=off "$tools/staticcheck" ./...); done

echo "== words of documents, comments and messages"
go test -count=1 -run 'Words' .

echo "== lines of code"
bash internal/sizes.sh
