#!/usr/bin/env bash
# Puts the commands of a release into PATH for the next steps of a job, after a check of the checksum.
set -euo pipefail
case $RUNNER_OS in
  Linux) system=linux ;;
  macOS) system=darwin ;;
  Windows) system=windows ;;
  *) echo "::error::Holdfast has no release for $RUNNER_OS" && exit 1 ;;
esac
case $RUNNER_ARCH in
  X64) processor=amd64 ;;
  ARM64) processor=arm64 ;;
  *) echo "::error::Holdfast has no release for processors of type $RUNNER_ARCH" && exit 1 ;;
esac
name=holdfast_${VERSION}_${system}_$processor
work=$(mktemp -d "$RUNNER_TEMP/holdfast-XXXXXX")
cd "$work"
for file in "$name.tar.gz" SHA256SUMS; do
  curl -fsSL --retry 3 -o "$file" "$RELEASES/v$VERSION/$file"
done
if command -v sha256sum >/dev/null; then check=(sha256sum); else check=(shasum -a 256); fi
grep -F " $name.tar.gz" SHA256SUMS | "${check[@]}" -c -
tar -xzf "$name.tar.gz"
echo "$work/$name" >>"$GITHUB_PATH"
