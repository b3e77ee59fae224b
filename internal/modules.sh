# The modules of this repository, for the scripts beside this one.

# below prints patterns of the packages below directories.
below() { printf '%s/...\n' "$@"; }

# The modules that are released, each after those that it requires.
modules=(. internal/drivers lease/trylock store/sqlstore object items compat internal/aws aws items/dynamotable compat/reservation compat/s3verstore redis etcd nats kubernetes gcp azure observe otel adapters/cronlock adapters/gocronlock adapters/leaderlock adapters/migratelock adapters/gooselock adapters/certstore adapters/tusdlock adapters/tofustate cmd)
# Those of the workspace that are not.
unreleased=(examples proof proof/integration)
# proof/bench is outside of the workspace, so that the libraries that Holdfast is compared with
# do not choose versions for the others: it finds them by replace lines in its go.mod, with
# GOWORK=off.
apart=(proof/bench proof/bench/etcdserver)

# The packages in them.
mapfile -t released < <(below "${modules[@]/#/./}" | sed 's|^\./\./|./|')
mapfile -t packages < <(printf '%s\n' "${released[@]}"; below "${unreleased[@]/#/./}")

# cache prints a directory outside the tree, which it makes.
cache() {
  local dir="${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast-test}/$1"
  mkdir -p "$dir"
  echo "$dir"
}
