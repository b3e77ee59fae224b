#!/usr/bin/env bash
# Builds the packages of a release into dist/: static binaries for each system, as tar
# archives and Debian packages, with the documents, the policies, man pages, completions and
# the licences of what is linked, the documents as a site, a list of what is in the binaries (SPDX), and checksums.
# The same commit gives the same bytes, on any machine and in any directory: it names the Go
# that builds it, too.
#
#   internal/release.sh v0.1.0
#
# Releasing. The modules that internal/modules.sh lists are released, all with one version,
# each under a tag of its own, on one commit:
#
#   v0.1.0          github.com/holdfast-go/holdfast          requires nothing
#   object/v0.1.0   github.com/holdfast-go/holdfast/object   requires holdfast v0.1.0
#   ...
#   cmd/v0.1.0      github.com/holdfast-go/holdfast/cmd      requires all others
#
# For another version than the last, first raise the require lines in the files go.mod of the
# workspace and the replace lines in go.work, run "make tidy" and "make test", and commit that.
# No released module may have a replace line: with one "go install" refuses the module. Push the
# tags together (git push --atomic): the module proxy asks for all of them at the first
#
#   go install github.com/holdfast-go/holdfast/cmd/...@v0.1.0
#
# and remembers for a while what it did not find. A tag is never moved.
set -euo pipefail
cd "$(dirname "$0")/.."
. internal/modules.sh
version=${1:?usage: internal/release.sh VERSION}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || { echo "a version is like v0.1.0, not $version" >&2; exit 64; }
number=${version#v}
for module in "${modules[@]}"; do
  if grep -q '^replace' "$module/go.mod"; then
    echo "$module/go.mod has a replace line: go install of a tag would refuse it" >&2
    exit 1
  fi
done
umask 022
texts=(README.md CHANGELOG.md SECURITY.md docs policies)
export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export CGO_ENABLED=0 GOFLAGS=-trimpath TZ=UTC LC_ALL=C
# The Go of the release, which another Go fetches. Raise it with each release of Go.
export GOTOOLCHAIN=go1.26.8
dist=$PWD/dist
rm -rf "$dist"
mkdir -p "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

set_version="-X github.com/holdfast-go/holdfast/cmd/internal/command.version=$version"
build() { # OS ARCH DIRECTORY
  GOOS=$1 GOARCH=$2 go build -buildvcs=false -ldflags "-s -w -buildid= $set_version" -o "$3/" ./cmd/holdfast ./cmd/holdfast-stores
}

GOFLAGS= go build -o "$work/sbom" ./internal/sbom

echo "== documentation"
build "$(go env GOHOSTOS)" "$(go env GOHOSTARCH)" "$work/bin"
mkdir "$work/man" "$work/completions"
HOLDFAST_MAN_PAGES=$work/man go test -count=1 -ldflags "$set_version" -run '^TestMakeManPages$' ./cmd/internal/command >/dev/null
for shell in bash zsh fish; do
  "$work/bin/holdfast" completion "$shell" >"$work/completions/holdfast.$shell"
done

# archive packs a folder the same way every time, whatever the umask of the checkout.
archive() { # FOLDER
  tar --sort=name --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" -c "$1" | gzip -n9 >"$dist/$1.tar.gz"
}

debian() { # ARCH DIRECTORY
  local root=$work/deb-$1
  install -Dm755 -t "$root/usr/bin" "$2/holdfast" "$2/holdfast-stores"
  for page in "$work"/man/*.[157]; do
    section=$root/usr/share/man/man${page##*.}
    install -d "$section"
    gzip -n9c "$page" >"$section/$(basename "$page").gz"
  done
  install -d "$root/usr/share/doc/holdfast"
  cp -r "${texts[@]}" "$root/usr/share/doc/holdfast/"
  install -Dm644 "$work/completions/holdfast.bash" "$root/usr/share/bash-completion/completions/holdfast"
  install -Dm644 "$work/completions/holdfast.zsh" "$root/usr/share/zsh/vendor-completions/_holdfast"
  install -Dm644 "$work/completions/holdfast.fish" "$root/usr/share/fish/vendor_completions.d/holdfast.fish"
  install -Dm644 LICENSE "$root/usr/share/doc/holdfast/copyright"
  install -m644 "$2/THIRD-PARTY-LICENSES" "$root/usr/share/doc/holdfast/"
  install -d "$root/DEBIAN"
  cat >"$root/DEBIAN/control" <<EOF
Package: holdfast
Version: $number
Architecture: $1
Maintainer: The Holdfast authors <holdfast@example.org>
Section: utils
Priority: optional
Recommends: ca-certificates
Homepage: https://github.com/holdfast-go/holdfast
Description: locks, commits and checkpoints on the storage you already have
 Runs commands under a lock that lies in a directory, on S3, in DynamoDB or in a
 database, writes objects that only one writer wins, and keeps positions in streams
 that never go backwards.
EOF
  chmod -R u=rwX,go=rX "$root"
  find "$root" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz --build "$root" "$dist/holdfast_${number}_$1.deb" >/dev/null
}

for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do
  os=${target%/*} arch=${target#*/}
  echo "== $target"
  folder=holdfast_${number}_${os}_${arch}
  mkdir "$work/$folder"
  build "$os" "$arch" "$work/$folder"
  cp -r LICENSE "${texts[@]}" "$work/man" "$work/completions" "$work/$folder/"
  "$work/sbom" licenses "$work/$folder"/holdfast* >"$work/licenses"
  mv "$work/licenses" "$work/$folder/THIRD-PARTY-LICENSES"
  archive "$folder"
  if [ "$os" = linux ] && command -v dpkg-deb >/dev/null; then
    debian "$arch" "$work/$folder"
  fi
done

echo "== the site"
site=holdfast_${number}_site
HOLDFAST_VERSION=$version bash internal/site.sh "$work/$site"
archive "$site"

echo "== software bill of materials"
(cd "$work" && ./sbom "$version" holdfast_*/holdfast holdfast_*/holdfast-stores holdfast_*/*.exe) >"$dist/holdfast_$number.spdx.json"

(cd "$dist" && sha256sum -- * >SHA256SUMS)
ls -l "$dist"
