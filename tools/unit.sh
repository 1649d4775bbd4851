#!/usr/bin/env bash
# Runs all Go tests but the end-to-end ones, on the stack that it is called with, and prints the
# events of `go test`. The race detector makes a test cost three times as much, and can find
# something only where memory is shared: packages whose own code starts a goroutine, or keeps one
# out by a lock, are tested with it, all others without. `RACE=all` tests everything with it.
#   tools/unit.sh [ARGUMENTS OF GO TEST]   only these, with the race detector
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# No symbols: linking 150 programs costs a third less, and traces name lines all the same.
gotest() { go test -json -vet=off -ldflags=-s -count=1 -parallel 6 -timeout 20m "$@"; }
raced() { CGO_ENABLED=1 gotest -race "$@"; }
if (($#)); then
    raced "$@"
    exit
fi

sharing='^\s*go (func\b|[A-Za-z_.]+\()|"sync(/atomic)?"|x/sync/(errgroup|singleflight)"'
with=() without=()
while read -r package files; do
    # shellcheck disable=SC2086 # names of Go files hold no blanks
    if [[ ${RACE:-} == all ]] || grep -qE "$sharing" ${files:-/dev/null}; then with+=("$package"); else without+=("$package"); fi
done < <(go list -f '{{$dir := .Dir}}{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{range .GoFiles}} {{$dir}}/{{.}}{{end}}{{end}}' ./... | grep -v '/e2e ' | grep .)

rc=0
# Most tests wait for engines: three packages at a time keep two cores busy.
raced -p 3 "${with[@]}" || rc=1
if ((${#without[@]})); then gotest -p 3 "${without[@]}" || rc=1; fi
exit $rc
