# The modules of this repository, for the scripts beside this one.

# Those that are released, those of the workspace, and those apart from it. bench stands outside
# of it, so that the libraries that Holdfast is compared with do not choose versions for the
# others: it finds them by replace lines in its go.mod, with GOWORK=off.
released=(./... ./cmd/... ./aws/...)
packages=("${released[@]}" ./internal/integration/...)
apart=(bench bench/etcdserver)

# cache prints a directory outside the tree, which it makes.
cache() {
  local dir="${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast-test}/$1"
  mkdir -p "$dir"
  echo "$dir"
}
