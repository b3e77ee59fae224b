#!/usr/bin/env bash
# Builds the packages of a release into dist/: static binaries for each system, as tar archives,
# packages for Debian and for RPM, wheels for Python and packages for npm. They have the licences of
# what is linked, and the first three also the documents, the policies, man pages and completions.
# dist/ is also an apt repository without folders, and has a formula for Homebrew, a manifest for
# Scoop, the documents as a site, a list of what is in the binaries (SPDX), and checksums.
# The same commit gives the same bytes, in any directory, and on any machine with the same tar, gzip,
# zlib, npm and apt-ftparchive: it names the Go, nfpm and hatchling that it needs.
#
#   internal/release.sh v0.1.0
#   RELEASE_DIST=/tmp/new internal/release.sh v0.1.0 linux/amd64    # for a test: one system, no site
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
# workspace, the replace lines in go.work, and the version in action/action.yml, run "make tidy" and
# "make test", and commit that.
# No released module may have a replace line: with one "go install" refuses the module. Push the
# tags together (git push --atomic): the module proxy asks for all of them at the first
#
#   go install github.com/holdfast-go/holdfast/cmd/...@v0.1.0
#
# and remembers for a while what it did not find. A tag is never moved.
set -euo pipefail
cd "$(dirname "$0")/.."
. internal/modules.sh
version=${1:?usage: internal/release.sh VERSION [SYSTEM/ARCHITECTURE...]}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || { echo "a version is like v0.1.0, not $version" >&2; exit 64; }
number=${version#v}
targets=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)
if [ $# -gt 1 ]; then targets=("${@:2}"); fi
for module in "${modules[@]}"; do
  if grep -q '^replace' "$module/go.mod"; then
    echo "$module/go.mod has a replace line: go install of a tag would refuse it" >&2
    exit 1
  fi
done
if [ -z "${RELEASE_DIST:-}" ] && [ -n "$(git status --porcelain)" ]; then
  echo "the working tree has changes or files that are not committed: the packages would contain them" >&2
  exit 1
fi
umask 022
texts=(README.md CHANGELOG.md SECURITY.md docs policies)
export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export CGO_ENABLED=0 GOFLAGS=-trimpath TZ=UTC LC_ALL=C
if [ $# -gt 1 ]; then unset CGO_ENABLED GOFLAGS; fi # built from the cache of the tests
# The Go of the release, which another Go fetches. Raise it with each release of Go.
export GOTOOLCHAIN=go1.26.8
dist=${RELEASE_DIST:-$PWD/dist}
if [ -z "${RELEASE_DIST:-}" ]; then rm -rf dist; fi
mkdir "$dist"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
internal=$PWD/internal

set_version="-X github.com/holdfast-go/holdfast/cmd/internal/command.version=$version"
build() { # OS ARCH DIRECTORY
  GOOS=$1 GOARCH=$2 go build -buildvcs=false -ldflags "-s -w -buildid= $set_version" -o "$3/" ./cmd/holdfast ./cmd/holdfast-stores
}

GOFLAGS= go build -o "$work/sbom" ./internal/sbom
GOWORK=off GOFLAGS= go build -modfile=internal/tools.mod -o "$work/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm
tools=$(fetched packages)

echo "== documentation"
host=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
build "${host%/*}" "${host#*/}" "$work/bin"
mkdir "$work/man" "$work/completions"
HOLDFAST_MAN_PAGES=$work/man go test -count=1 -vet=off -ldflags "$set_version" -run '^TestMakeManPages$' ./cmd/internal/command >/dev/null
for shell in bash zsh fish; do
  "$work/bin/holdfast" completion "$shell" >"$work/completions/holdfast.$shell"
done
for page in "$work"/man/*; do
  section=$work/compressed/man/man${page##*.}
  mkdir -p "$section"
  gzip -n9c "$page" >"$section/$(basename "$page").gz"
done

# archive packs a folder the same way every time, whatever the umask of the checkout.
archive() { # FOLDER
  tar --sort=name --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" -c "$1" | gzip -n9 >"$dist/$1.tar.gz"
}

linux_packages() { # ARCH DIRECTORY
  local rpm_arch=x86_64 file
  if [ "$1" = arm64 ]; then rpm_arch=aarch64; fi
  for file in "holdfast_${number}_$1.deb" "holdfast-$number-1.$rpm_arch.rpm"; do
    (cd "$2" && ARCH=$1 VERSION=$number "$work/nfpm" package -f "$internal/packages/nfpm.yaml" -p "${file##*.}" -t "$dist/$file") >/dev/null
  done
}

wheel() { # TAG DIRECTORY
  local root=$work/python-$1
  mkdir -p "$root/bin"
  cp -r clients/python/{pyproject.toml,platform_wheel.py,README.md,src} LICENSE "$2/THIRD-PARTY-LICENSES" "$root"
  cp "$2"/holdfast* "$root/bin"
  (cd "$root" && HOLDFAST_VERSION=$number HOLDFAST_PLATFORM=$1 PYTHONPATH=$tools/python python3 -m hatchling build -t wheel -d "$dist") >/dev/null 2>&1
}

# npm_package packs a folder. npm gives all files one time, and gzip the same bytes on all processors.
npm_package() { # DIRECTORY
  local name
  name=$dist/$(npm pack --silent --pack-destination "$dist" "$1")
  gunzip -c "$name" | gzip -n9 >"$work/package.tgz"
  mv "$work/package.tgz" "$name"
}

node() { # SYSTEM-PROCESSOR DIRECTORY
  local root=$work/node-$1
  mkdir -p "$root/bin"
  cp LICENSE "$2/THIRD-PARTY-LICENSES" "$root"
  cp "$2"/holdfast* "$root/bin"
  cat >"$root/package.json" <<EOF
{
  "name": "@holdfast-go/$1",
  "version": "$number",
  "description": "The programs of holdfast for $1",
  "license": "Apache-2.0",
  "homepage": "https://github.com/holdfast-go/holdfast",
  "repository": {"type": "git", "url": "git+https://github.com/holdfast-go/holdfast.git"},
  "os": ["${1%-*}"],
  "cpu": ["${1#*-}"],
  "preferUnplugged": true
}
EOF
  npm_package "$root"
}

# Go needs macOS 12. The programs for Linux are static, so they need no C library.
declare -A tag=(
  [linux/amd64]=manylinux_2_17_x86_64.musllinux_1_1_x86_64 [linux/arm64]=manylinux_2_17_aarch64.musllinux_1_1_aarch64
  [darwin/amd64]=macosx_12_0_x86_64 [darwin/arm64]=macosx_12_0_arm64 [windows/amd64]=win_amd64 [windows/arm64]=win_arm64
)
declare -A node_name=(
  [linux/amd64]=linux-x64 [linux/arm64]=linux-arm64 [darwin/amd64]=darwin-x64 [darwin/arm64]=darwin-arm64
  [windows/amd64]=win32-x64 [windows/arm64]=win32-arm64
)
for target in "${targets[@]}"; do
  os=${target%/*} arch=${target#*/}
  echo "== $target"
  folder=holdfast_${number}_${os}_${arch}
  mkdir "$work/$folder"
  if [ "$target" = "$host" ]; then cp "$work"/bin/* "$work/$folder"; else build "$os" "$arch" "$work/$folder"; fi
  cp -r LICENSE "${texts[@]}" "$work/man" "$work/completions" "$work/$folder/"
  "$work/sbom" licenses "$work/$folder"/holdfast* >"$work/licenses"
  mv "$work/licenses" "$work/$folder/THIRD-PARTY-LICENSES"
  chmod -R u=rwX,go=rX "$work/$folder"
  archive "$folder"
  if [ "$os" = linux ]; then linux_packages "$arch" "$work/$folder"; fi
  wheel "${tag[$target]}" "$work/$folder"
  node "${node_name[$target]}" "$work/$folder"
done
cp -r clients/node "$work/node"
cp LICENSE "$work/node"
sed -i "s/\"0\.0\.0\"/\"$number\"/" "$work/node/package.json"
npm_package "$work/node"

if [ $# = 1 ]; then
  echo "== the site"
  site=holdfast_${number}_site
  HOLDFAST_VERSION=$version bash internal/site.sh "$work/$site"
  archive "$site"
fi

echo "== software bill of materials"
(cd "$work" && ./sbom "$version" holdfast_*/holdfast*) >"$dist/holdfast_$number.spdx.json"

echo "== the apt repository"
# Whoever publishes it signs the file Release.
(cd "$dist" && apt-ftparchive packages . >Packages && apt-ftparchive -o APT::FTPArchive::Release::Origin=Holdfast \
  -o APT::FTPArchive::Release::Suite=stable -o APT::FTPArchive::Release::Architectures="amd64 arm64" \
  -o APT::FTPArchive::Release::Date="$(date -Ru -d "@$SOURCE_DATE_EPOCH")" release . >"$work/Release")
mv "$work/Release" "$dist/"

# The formula for Homebrew and the manifest for Scoop, with the checksums of the archives.
(cd "$dist" && sha256sum -- *.tar.gz | sed -E 's|^([0-9a-f]+) .(.*)$|s,@\2@,\1,|') >"$work/checksums"
for template in holdfast.rb scoop.json; do
  sed "s/@VERSION@/$number/g; s,@URL@,https://github.com/holdfast-go/holdfast/releases/download/$version," "internal/packages/$template" |
    sed -f "$work/checksums" >"$dist/${template/scoop/holdfast}"
done

(cd "$dist" && sha256sum -- * >SHA256SUMS)
ls -l "$dist"
