#!/usr/bin/env bash
# Writes the files that a release has besides the image into target/release-files: the chart, the manifests in one
# file, the list of the crates in the binary (SBOM), and checksums. Chart and manifests name the image that is given.
#
#   ci/release.sh registry.example.com/flipop            # needs jq, and Helm as helm4
#   ci/release.sh --notes                                # prints what CHANGELOG.md says of this version
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -ne 1 ] || [ -z "$1" ] || [[ "$1" = -* && "$1" != --notes ]]; then
  echo "usage: ci/release.sh IMAGE | ci/release.sh --notes" >&2
  exit 2
fi

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
# The removed comment is true only in the repository.
sed -i "/# No registry has this name/d; s#registry.invalid/flipop#$image#" target/release-chart/flipop/values.yaml
helm4 package target/release-chart/flipop --destination "$out"

for file in k8s/*.yaml; do
  printf -- '---\n'
  sed "/# No registry has this name/d; s#registry.invalid/flipop:#$image:#" "$file"
done > "$out/flipop-$version.yaml"

# Files that users apply with separate commands: the agent, the rights of node checks, and the limits of tenants.
for part in agent nodecheck; do
  for file in k8s/"$part"/*.yaml; do
    printf -- '---\n'
    sed "/# No registry has this name/d; s#registry.invalid/flipop:#$image:#" "$file"
  done > "$out/flipop-$part-$version.yaml"
done
cp k8s/tenants/policy.yaml "$out/flipop-tenants-$version.yaml"
grep -qF "image: $image:$version" "$out/flipop-agent-$version.yaml"

if grep -e registry.invalid -e "No registry has" target/release-chart/flipop/values.yaml "$out"/*.yaml; then
  echo "the files speak of the image of the repository, not of the release" >&2
  exit 1
fi
grep -qF "image: $image:$version" "$out/flipop-$version.yaml"

# CycloneDX. A scanner of the image would not find the crates, because the binary is linked statically. The time is the
# commit's, so that one commit gives one file.
tree() {
  cargo tree --locked --package flipop --edges normal,no-proc-macro --prefix depth --format ' {p}' \
    --target x86_64-unknown-linux-gnu --target aarch64-unknown-linux-gnu
}
checksums=$(awk -F'"' '/^name = /{ n = $2 } /^version = /{ v = $2 } /^checksum = /{ print n "@" v "|" $2 }' Cargo.lock)
tree | jq -Rn --arg version "$version" --arg checksums "$checksums" \
  --arg time "$(TZ=UTC0 git log -1 --date=format-local:%FT%TZ --format=%cd)" \
  --slurpfile metadata <(cargo metadata --locked --format-version 1) '
  ($checksums | split("\n") | map(split("|") | {(.[0]): .[1]}) | add) as $sha256
  | ($metadata[0].packages | map({"\(.name)@\(.version)": .}) | add) as $packages
  | {name: "The authors of FLIPOP"} as $us
  # The path holds the crates from the root to this line, so the last but one needs the last.
  | reduce (inputs | capture("^(?<depth>[0-9]+) (?<name>[^ ]+) v(?<version>[^ ]+)")) as $crate ({path: [], needs: {}};
      ($crate.depth | tonumber) as $depth
      | .path = .path[:$depth] + ["\($crate.name)@\($crate.version)"]
      | .needs[.path[-1]] += []
      | if $depth > 0 then .needs[.path[-2]] += [.path[-1]] else . end)
  | .needs as $needs | .path[0] as $root
  | {bomFormat: "CycloneDX", specVersion: "1.5", version: 1,
     metadata: {timestamp: $time, supplier: $us,
       component: {type: "application", name: "flipop", version: $version, "bom-ref": $root, supplier: $us}},
     components: [$needs | del(.[$root]) | keys[] as $id | $packages[$id]
       | {type: "library", name, version, "bom-ref": $id, licenses: [{expression: (.license | gsub(" */ *"; " OR "))}]}
         # Only a crate of the registry has a checksum, and an address there.
         + if $sha256[$id] then {purl: "pkg:cargo/\($id)", hashes: [{alg: "SHA-256", content: $sha256[$id]}],
             supplier: {name: (.authors | map(sub(" *<.*"; "")) | join(", ")
               | if . == "" then "The authors of \($id)" else . end)}}
           else {supplier: $us} end],
     dependencies: [$needs | to_entries[] | {ref: .key, dependsOn: (.value | unique)}]}' \
  > "$out/flipop-$version.cdx.json"
jq -e '(.components | length) > 100 and all(.components[]; (.hashes and .purl) != (.name | startswith("flipop")))
  and ([.metadata.component, .components[]] | all(.supplier.name != ""))
  and ([.dependencies[].dependsOn[]] | unique) == ([.components[]."bom-ref"] | sort)' \
  "$out/flipop-$version.cdx.json" > /dev/null

(cd "$out" && sha256sum -- * > sha256sums.txt)
cat "$out/sha256sums.txt"
