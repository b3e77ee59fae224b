#!/usr/bin/env bash
# Builds the site into a directory, which it replaces: a page for each document, a list of
# contents and a search. The pages need no server and load nothing from another host.
#
#   internal/site.sh [DIRECTORY]          in this repository; site by default
#   internal/site.sh --tools              only prints where what it fetched is
#
# MkDocs with Material comes from PyPI, and Mermaid from npm, each in the version and with
# the hash that the files in internal/site name. To raise them, edit requirements.in and run
#
#   uv pip compile --universal --python-version 3.11 --generate-hashes --no-annotate \
#     requirements.in -o requirements.txt
#
# and for Mermaid npm install --package-lock-only.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-site}
. internal/modules.sh

tools=$(fetched site)
if [ "$dir" = --tools ]; then
  echo "$tools"
  exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
HOLDFAST_NODE_MODULES=$tools/node_modules PYTHONPATH=$tools/python \
  NO_MKDOCS_2_WARNING=1 python3 -m mkdocs build -f internal/site/mkdocs.yml -d "$work/site"
rm "$work/site/"{404.html,sitemap.xml*} # both need the address of the site
for file in "$tools"/python/mkdocs_material-*.dist-info/licenses/LICENSE "$tools"/node_modules/{,@*/}*/[Ll][Ii][Cc][Ee][Nn][Ss][Ee]*; do
  printf '=== %s\n\n' "${file#"$tools"/*/}"
  cat "$file"
done >"$work/site/THIRD-PARTY-LICENSES"
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
mv "$work/site" "$dir"
