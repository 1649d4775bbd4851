#!/usr/bin/env bash
# Runs every fuzz target for a while, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do
    grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | sed 's/^func //' | sort -u | while read -r target; do
        echo "== $dir $target"
        go test "$dir" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}"
    done
done
