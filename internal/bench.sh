#!/usr/bin/env bash
# Requests per operation, which are exact, and times, of which the ratios count. The
# peers are measured on the same servers in the same run. Arguments go to the program
# that compares with them, bench: -only files, -for 3s, ... On two cores at a load of
# 20 the benchmarks of Go took 90 s (filling a store with 10,000 keys 45 of them), files
# 61 s, and transfers with nine rounds 137 s.
# It needs java, npm, mvn and PostgreSQL: what else it compares with, it fetches and builds.
set -euo pipefail
cd "$(dirname "$0")/.."

# Those in timed measure a span of time in each iteration, which one iteration tells.
timed='^Benchmark(Contended|Processes)$'
go test ./lease ./store/filestore ./checkpoint -run xxx -bench . -skip "$timed" -benchtime 100x
go test ./compat/avisofile -run xxx -bench . -benchtime 100x
go test ./store/filestore ./checkpoint -run xxx -bench "$timed" -benchtime 1x
(cd proof/bench && GOWORK=off go run . -rounds 5 "$@")
