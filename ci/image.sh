#!/usr/bin/env bash
# Builds the image's final stage twice from a static binary, requires the same digest, and runs the image. tests/image
# says what is checked.
#
#   ci/image.sh            # builds the binary as a release does
#   ci/image.sh BINARY
#
# Needs buildah, and no registry: the build stage is replaced by a folder. Runs as root or without.
set -euo pipefail
cd "$(dirname "$0")/.."

out="target/image/root"
tag="localhost/flipop:ci"

binary=${1:-}
if [ -z "$binary" ]; then
  host="$(rustc -vV | sed -n 's/^host: //p')"
  FLIPOP_COMMIT="$(git rev-parse --short=12 HEAD || true)" RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --locked --release --package flipop --bin flipop --target "$host"
  binary="target/$host/release/flipop"
fi
rm -rf "$out"
install -D -m 0755 "$binary" "$out/out/app/flipop"
install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$out/out/etc/ssl/certs/ca-certificates.crt"

export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
build() { # build DATE: builds from files of that date, and prints the digest of the image
  find "$out" -exec touch --date "$1" {} +
  # The times in the image do not come from the machine that builds it.
  buildah build --quiet --no-cache --timestamp 0 --target final --build-context "build=$out" --tag "$tag" .
}
first=$(build 2001-01-01)
second=$(build 2002-02-02)
[ "$first" = "$second" ] || { echo "the same files give two images: $first and $second" >&2; exit 1; }
# The features of all tests, so that nothing is compiled again.
FLIPOP_IMAGE="$tag" cargo test --locked --workspace --test image
