#!/usr/bin/env bash
# Lines of Go code in each part of the repository, and in each module: without comments and
# empty lines. The root module is what each user downloads: its product should have at most
# 20,000 lines. Models, suites and tools prove what the product promises.
set -euo pipefail
cd "$(dirname "$0")/.."
. internal/modules.sh

git ls-files --cached --others --exclude-standard '*.go' | while read -r file; do
  printf '%s %s\n' "$file" "$(grep -vcE '^[[:space:]]*(//.*)?$' "$file")"
done | awk -v modules="${modules[*]} ${unreleased[*]} ${apart[*]}" '
  BEGIN { split(modules, dirs, " ") }
  # The first rule that names a file counts.
  function part(file) {
    if (file ~ /^proof\/(.*model|explore)\//) return "models"
    if (file ~ /^(proof|examples)\//) return "integration, bench, examples"
    if (file ~ /([a-z]test|powercut|faultstore|plainwords|sbom)\//) return "suites and tools"
    if (file ~ /^internal\/aws\//) return "aws"
    if (match(file, /^(lease|store|object|checkpoint|items|compat|aws|azure|gcp|redis|etcd|nats|kubernetes|observe|otel|adapters|cmd|internal)\//)) return substr(file, 1, RLENGTH - 1)
    return "root"
  }
  function module(file,   i, best) {
    best = "."
    for (i in dirs) if (index(file, dirs[i] "/") == 1 && length(dirs[i]) > length(best)) best = dirs[i]
    return best
  }
  function column(file) {
    if (file ~ /(_test\.go$|testdata\/)/) return "tests"
    return part(file) ~ /^(models|suites|integration)/ ? "suites and tools" : "product"
  }
  function print_row(name, key) {
    printf "%-32s %8d %17d %8d\n", name, lines[key, "product"], lines[key, "suites and tools"], lines[key, "tests"] | "sort"
  }
  function print_all(kind,   key) {
    printf "%-32s %8s %17s %8s\n", kind, "product", "suites and tools", "tests"
    for (key in seen) if (index(key, kind " ") == 1) print_row(substr(key, length(kind) + 2), key)
    close("sort")
  }
  {
    keys[1] = "part " part($1); keys[2] = "module " module($1); keys[3] = "sum of all"
    for (i in keys) { seen[keys[i]]; lines[keys[i], column($1)] += $2 }
  }
  END {
    print_all("part")
    printf "\n"
    print_all("module")
    printf "\n"
    print_all("sum of")
  }'
