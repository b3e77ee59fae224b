#!/usr/bin/env bash
# Formatting, vet, staticcheck, and types for the systems that are not tested here.
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
# The types of all packages, and vet of packages with files for one system. Vet compiles what it reads,
# so packages that import the libraries of clouds have no vet for other systems.
tools=$(cache tools)
go build -o "$tools/typecheck" ./internal/typecheck
for os in darwin windows; do
  echo "== types and go vet for $os"
  GOOS=$os "$tools/typecheck" "${released[@]}" ./examples/...
  GOOS=$os go vet ./internal/{localfs,powercut,safefile,sysclock} ./store/filestore ./examples/fence ./compat/avisofile ./cmd/internal/child
done

echo "== staticcheck"
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
