#!/usr/bin/env bash
# Looks for known vulnerabilities in what the packages call. It asks vuln.go.dev.
set -euo pipefail
cd "$(dirname "$0")/.."
. internal/modules.sh
tools=$(cache tools)
GOWORK=off GOFLAGS= go build -modfile=internal/tools.mod -o "$tools/govulncheck" golang.org/x/vuln/cmd/govulncheck
"$tools/govulncheck" "${released[@]}"
