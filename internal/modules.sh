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

# fetched NAME prints a directory with what the files in internal/NAME list, each in its version and with its
# hash: python/ with the packages of requirements.txt, and node_modules/ with those of package-lock.json. It
# fetches them once.
fetched() {
  local from=internal/$1 python dir new
  python=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  dir=$(cache "$1")/$(cat "$from"/{requirements.txt,package-lock.json} | sha256sum | cut -c-16)-$python
  if [ ! -d "$dir" ]; then
    echo "== fetching what $from lists (once)" >&2
    new=$(mktemp -d "$dir.XXXXXX")
    python3 -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: \
      --root-user-action ignore --no-deps --require-hashes -r "$from/requirements.txt" --target "$new/python" >&2 &&
      cp "$from"/package*.json "$new" &&
      npm ci --prefix "$new" --ignore-scripts --no-audit --no-fund --silent >&2 || { rm -rf "$new"; return 1; }
    mv -T "$new" "$dir" 2>/dev/null || rm -rf "$new" # another process was faster
  fi
  echo "$dir"
}
