# The modules of this repository, for the scripts beside this one.

# Those that are released, and those of the workspace. internal/peers is a workspace of
# its own, so that what it is compared with does not choose versions for the others.
released=(./... ./cmd/... ./aws/...)
packages=("${released[@]}" ./internal/integration/...)

# cache prints a directory outside the tree, which it makes.
cache() {
  local dir="${HOLDFAST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/holdfast-test}/$1"
  mkdir -p "$dir"
  echo "$dir"
}
