#!/usr/bin/env bash
# Makes what a release consists of beside the image, into target/release-files: the chart, the manifests in one file,
# and checksums. All of them name the image that is given.
#
#   ci/release.sh registry.example.com/flipop            # needs Helm as helm4
#   ci/release.sh --notes                                # prints what CHANGELOG.md says of this version
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)

if [ "$1" = --notes ]; then
  notes=$(awk -v heading="## [$version]" 'index($0, heading) == 1 { on = 1; next } /^## / { on = 0 } on' CHANGELOG.md)
  [ -n "$notes" ] || { echo "CHANGELOG.md has no section of $version" >&2; exit 1; }
  echo "$notes"
  exit
fi

image=$1
out=target/release-files
rm -rf "$out" target/release-chart
mkdir -p "$out" target/release-chart

cp -r charts/flipop target/release-chart/
sed -i "s#registry.invalid/flipop#$image#" target/release-chart/flipop/values.yaml
helm4 package target/release-chart/flipop --destination "$out"

for file in k8s/*.yaml; do
  printf -- '---\n'
  sed "s#registry.invalid/flipop:#$image:#" "$file"
done > "$out/flipop-$version.yaml"

if grep -rl registry.invalid target/release-chart/flipop/values.yaml "$out/flipop-$version.yaml"; then
  echo "registry.invalid is left behind" >&2
  exit 1
fi
grep -qF "image: $image:$version" "$out/flipop-$version.yaml"
(cd "$out" && sha256sum -- * > sha256sums.txt)
cat "$out/sha256sums.txt"
