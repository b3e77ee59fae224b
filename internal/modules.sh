# The modules of this repository, for the scripts beside this one.

# Those that are released, and all.
released=(./... ./cmd/... ./aws/...)
packages=("${released[@]}" ./internal/integration/... ./internal/peers/...)

# cache prints a directory outside the tree, which it makes.
cache() {
  local dir="${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast-test}/$1"
  mkdir -p "$dir"
  echo "$dir"
}
