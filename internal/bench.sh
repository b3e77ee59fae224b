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
# A directory of many objects, in memory, since the disk does not count.
TMPDIR=/dev/shm go test ./object/dirbucket -run xxx -bench '^BenchmarkSweep$' -benchtime 1x
# Counts in virtual time: a fair queue whose 40 waiters wait for 2 s each, a program that watches 1,000
# locks on S3 (a hundred programs send a hundred times as much), and 300 programs on one server that
# has 3 % of its limits (docs/scale.md has 10,000 programs).
for request in 50ms 100ms; do go test ./lease -run '^TestQueueOfShortWaits$' -v -args -request $request | grep grants; done
go test ./aws/s3store -run '^TestRequestsOfWatchers$' -v | grep 'in a minute'
go test ./proof/scale -run '^TestTableOfCosts$' -v -args -table -programs 300 | grep '^|'
(cd proof/bench && GOWORK=off go run . -rounds 5 "$@")
