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
# proof/bench/etcdserver has no package: it names the version of etcd, which only the bench builds.
(cd proof/bench && GOWORK=off go vet ./...)
# The types alone, because vet compiles the standard library for each system.
tools=$(cache tools)
go build -o "$tools/typecheck" ./proof/typecheck
for os in darwin windows; do
  echo "== types for $os"
  GOOS=$os "$tools/typecheck" "${released[@]}" ./examples/...
done

echo "== staticcheck"
GOWORK=off go build -modfile=internal/tools.mod -o "$tools/staticcheck" honnef.co/go/tools/cmd/staticcheck
# What it knows of the libraries is in the directory that CI keeps.
STATICCHECK_CACHE=$(cache staticcheck)
export STATICCHECK_CACHE
"$tools/staticcheck" "${packages[@]}"
(cd proof/bench && GOWORK=off "$tools/staticcheck" ./...)

echo "== words of documents, comments and messages"
go test -count=1 -run 'Words' .

echo "== lines of code"
bash internal/sizes.sh
