#!/usr/bin/env bash
# Lines of Go code in each part of the repository, and in each module: without comments and
# empty lines. The root module is what each user downloads: it should have at most 20,000.
set -euo pipefail
cd "$(dirname "$0")/.."
. internal/modules.sh

git ls-files --cached --others --exclude-standard '*.go' | while read -r file; do
  printf '%s %s\n' "$file" "$(grep -vcE '^[[:space:]]*(//.*)?$' "$file")"
done | awk -v modules="${modules[*]} ${unreleased[*]} ${apart[*]}" '
  BEGIN { split(modules, dirs, " ") }
  # The most specific part that a file belongs to counts. Models, suites and tools prove what the
  # others promise.
  function part(file) {
    if (file ~ /^proof\/(.*model|explore)\//) return "models"
    if (file ~ /(storetest|objecttest|leasetest|checkpointtest|itemtest|suitetest|awstest|registertest|mutanttest|powercut|faultstore)\//) return "suites and faults"
    if (file ~ /^(internal\/(plainwords|site)|proof|examples)\//) return "integration, bench, examples"
    if (file ~ /^internal\/aws\//) return "aws"
    if (match(file, /^(lease|store|object|checkpoint|items|compat|aws|cmd|internal)\//)) return substr(file, 1, RLENGTH - 1)
    return "root"
  }
  function module(file,   i, best) {
    best = "."
    for (i in dirs) if (index(file, dirs[i] "/") == 1 && length(dirs[i]) > length(best)) best = dirs[i]
    return best
  }
  function add(key, n) {
    if ($1 ~ /_test\.go$/) tests[key] += n; else code[key] += n
    seen[key]
  }
  function print_all(kind,   key) {
    printf "%-32s %7s %7s\n", kind, "code", "tests"
    for (key in seen) if (index(key, kind " ") == 1)
      printf "%-32s %7d %7d\n", substr(key, length(kind) + 2), code[key], tests[key] | "sort"
    close("sort")
  }
  {
    add("part " part($1), $2)
    add("module " module($1), $2)
    add("all", $2)
  }
  END {
    print_all("part")
    printf "\n"
    print_all("module")
    printf "\n%-32s %7d %7d\n", "all", code["all"], tests["all"]
  }'
