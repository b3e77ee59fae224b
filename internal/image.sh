#!/usr/bin/env bash
# Makes the container image of a release from the binaries in dist/, which
# internal/release.sh built, after it has checked them against their checksums.
#
#   internal/image.sh v0.1.0 [ARGUMENT OF docker build...]
#
# With --context DIRECTORY it only puts together what docker build would get.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?usage: internal/image.sh VERSION}
shift
number=${version#v}
certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
context=
if [ "${1:-}" = --context ]; then
  context=${2:?--context needs a directory}
  mkdir -p "$context"
else
  context=$(mktemp -d)
  trap 'rm -rf "$context"' EXIT
fi
for arch in amd64 arm64; do
  folder=holdfast_${number}_linux_$arch
  (cd dist && grep -F " $folder.tar.gz" SHA256SUMS | sha256sum --quiet --check -) # fails if it is not listed
  mkdir -p "$context/$arch"
  for program in holdfast holdfast-stores; do
    tar -xzOf "dist/$folder.tar.gz" "$folder/$program" >"$context/$arch/$program"
    chmod 755 "$context/$arch/$program"
  done
  for text in LICENSE THIRD-PARTY-LICENSES; do
    tar -xzOf "dist/$folder.tar.gz" "$folder/$text" >"$context/$arch/$text"
  done
done
install -m644 "$certificates" "$context/ca-certificates.crt"
cp Dockerfile "$context/"
if [ "${1:-}" != --context ]; then
  docker build --tag "holdfast:$number" "$@" "$context"
fi
