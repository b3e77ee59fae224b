#!/usr/bin/env bash
# Requests per operation, which are exact, and times, of which the ratios count. The
# peers are measured on the same servers in the same run. Arguments go to the peers'
# program: -only files, -for 3s, ...
set -euo pipefail
cd "$(dirname "$0")/.."

go test ./lease ./store/filestore ./checkpoint/... -run xxx -bench . -benchtime 200x
(cd bench && GOWORK=off go run . "$@")
