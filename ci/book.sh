#!/usr/bin/env bash
# Builds the pages of docs/ into target/book with mdBook, which ends well whatever it warns of: any warning fails here.
# That links lead somewhere is checked by tests/repository/book.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p target
rm -rf target/book
mdbook build docs 2>&1 | tee target/book.log
if grep --quiet --extended-regexp '(WARN|ERROR) ' target/book.log; then
  echo "mdbook warns" >&2
  exit 1
fi
