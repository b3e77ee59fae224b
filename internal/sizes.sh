#!/usr/bin/env bash
# Lines of Go code in each part of the repository: without comments and empty lines.
set -euo pipefail
cd "$(dirname "$0")/.."

git ls-files --cached --others --exclude-standard '*.go' | while read -r file; do
  printf '%s %s\n' "$file" "$(grep -vcE '^[[:space:]]*(//.*)?$' "$file")"
done | awk '
  # The most specific part that a file belongs to counts. Models, suites and tools prove what the
  # others promise.
  function part(file) {
    if (file ~ /\/internal\/(.*model|explore)\//) return "models"
    if (file ~ /(storetest|objecttest|leasetest|checkpointtest|itemtest|suitetest|awstest|registertest|mutanttest|powercut|faultstore)\//) return "suites and faults"
    if (file ~ /^(internal\/(integration|plainwords|site)|bench|examples)\//) return "integration, bench, examples"
    if (file ~ /^internal\/aws\//) return "aws"
    if (match(file, /^(lease|store|object|checkpoint|items|compat|aws|cmd|internal)\//)) return substr(file, 1, RLENGTH - 1)
    return "root"
  }
  {
    p = part($1)
    if ($1 ~ /_test\.go$/) tests[p] += $2; else code[p] += $2
    seen[p]
  }
  END {
    printf "%-32s %7s %7s\n", "part", "code", "tests"
    for (p in seen) printf "%-32s %7d %7d\n", p, code[p], tests[p] | "sort"
    close("sort")
    for (p in seen) { c += code[p]; t += tests[p] }
    printf "%-32s %7d %7d\n", "all", c, t
  }'
