#!/usr/bin/env bash
# Packs binaries as the kubectl plugin `kubectl flipop`: an archive for each platform, and a manifest for krew. They go
# beside the other files of a release in target/release-files, so run ci/release.sh first.
#
#   ci/plugin.sh https://example.com/releases/v0.1.0 linux_amd64=target/release/flipop
#
# The address is the one from which the archives will be downloaded. The same binary gives the same archive.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# -lt 2 ] || [[ "$1" != https://* ]]; then
  echo "usage: ci/plugin.sh https://ADDRESS OS_ARCH=BINARY…" >&2
  exit 2
fi
address=${1%/}
shift

version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
out=target/release-files
mkdir -p "$out"

manifest="$out/krew-flipop.yaml"
cat > "$manifest" << END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: flipop
spec:
  version: v$version
  homepage: $address
  shortDescription: Shows and steers floating IPs
  description: |
    Shows which node has which floating IP and why, tries a change before you make it, checks an
    installation, and moves addresses by hand. It needs the operator FLIPOP in the cluster.
  platforms:
END

for platform in "$@"; do
  name=${platform%%=*} binary=${platform#*=}
  os=${name%%_*} arch=${name#*_}
  folder=$(mktemp -d)
  install -m 0755 "$binary" "$folder/kubectl-flipop"
  install -m 0644 LICENSE "$folder/LICENSE"
  archive="kubectl-flipop_$name.tar.gz"
  tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --directory "$folder" kubectl-flipop LICENSE \
    | gzip --no-name --best > "$out/$archive"
  rm -r "$folder"
  sha256=$(sha256sum "$out/$archive" | cut -d ' ' -f 1)
  cat >> "$manifest" << END
  - selector:
      matchLabels: {os: $os, arch: $arch}
    uri: $address/$archive
    sha256: $sha256
    bin: kubectl-flipop
END
done

(cd "$out" && find . -maxdepth 1 -type f ! -name sha256sums.txt -printf '%f\n' | sort | xargs sha256sum > sha256sums.txt)
cat "$out/sha256sums.txt"
