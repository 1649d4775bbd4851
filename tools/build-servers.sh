#!/usr/bin/env bash
# Builds a program of the embedded stack from its own module once and keeps the
# binary: gpuaas-servers (Temporal and OpenBao, module stack/servers), or
# gpuaas-registry (module stack/registry) with the argument "registry". The last
# line on stdout is its path; progress goes to stderr.
#
#   GPUAAS_SERVERS, GPUAAS_REGISTRY  use this binary instead of building one
#   GPUAAS_CACHE  where builds are kept (default: gpuaas in the user's cache)
set -euo pipefail

name=${1:-servers}
case $name in
servers) holds="Temporal and OpenBao" given=${GPUAAS_SERVERS:-} takes="several minutes (about 16 minutes of processor time)" ;;
registry) holds="the registry" given=${GPUAAS_REGISTRY:-} takes="about a minute" ;;
*) printf 'usage: %s [servers|registry]\n' "$0" >&2 && exit 2 ;;
esac

say() { printf 'gpuaas-%s: %s\n' "$name" "$*" >&2; }

if [[ -n $given ]]; then
  if [[ ! -x $given ]]; then
    say "GPUAAS_${name^^} names $given, which cannot be executed"
    exit 1
  fi
  printf '%s\n' "$given"
  exit 0
fi
if found=$(command -v "gpuaas-$name"); then
  printf '%s\n' "$found"
  exit 0
fi
if ! command -v go >/dev/null; then
  say "the Go toolchain is missing: install Go 1.26 or newer, or put a prebuilt gpuaas-$name on the PATH"
  exit 1
fi

source_dir=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../stack/$name" && pwd)
cache=${GPUAAS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuaas}
mkdir -p "$cache"
cd "$source_dir"

# Everything that decides what comes out of the compiler.
key=$({
  go version
  find . -type f \( -name '*.go' -o -name go.mod -o -name go.sum \) -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
} | sha256sum | cut -c 1-16)
binary=$cache/$name-$key

# current points the launcher at this build and prints its path.
current() {
  ln -sfn "$name-$key" "$cache/$name-current.$$"
  mv -Tf "$cache/$name-current.$$" "$cache/$name-current"
  printf '%s\n' "$binary"
}

if [[ -x $binary ]]; then
  current
  exit 0
fi

exec 9>"$cache/build-$name.lock"
if ! flock -n 9; then
  say "another build is running; waiting for it"
  flock 9
fi
if [[ -x $binary ]]; then # the other build made it
  current
  exit 0
fi

export CGO_ENABLED=0
partial=$cache/.partial.$$
lines=$cache/.lines.$$
packages=$cache/.packages.$$
job=
# A background job does not get the terminal's Ctrl-C: end it with the script.
trap 'if [[ -n $job ]]; then kill "$job" 2>/dev/null || true; fi; rm -f "$partial" "$lines" "$packages"' EXIT
: >"$lines"

# watch shows, until the process ends, how many of the lines that it writes
# match: one updating line on a terminal, else a line every 20 seconds.
watch() { # PID PATTERN WORDS
  local began=$SECONDS last=$((SECONDS - 20)) count
  while kill -0 "$1" 2>/dev/null; do
    count=$(grep -c -e "$2" "$lines" || true)
    if [[ -t 2 ]]; then
      printf '\rgpuaas-%s: %s %s, %d s ' "$name" "$count" "$3" $((SECONDS - began)) >&2
    elif ((SECONDS - last >= 20)); then
      last=$SECONDS
      say "$count $3, $((SECONDS - began)) s"
    fi
    sleep 0.5
  done
  if [[ -t 2 ]]; then printf '\n' >&2; fi
}

# failed shows what is not progress and ends the script.
failed() {
  say "$1 failed:"
  grep -v -e '^go: downloading ' -e '^[A-Za-z0-9_./~@-]*$' "$lines" >&2 || tail -n 5 "$lines" >&2
  exit 1
}

say "building $holds; the first time this takes $takes and is done once"
began=$SECONDS

# Listing the packages first downloads the modules that are missing.
go list -trimpath -deps . >"$packages" 2>"$lines" 9>&- &
job=$!
watch "$job" '^go: downloading ' 'modules downloaded'
wait "$job" || failed "downloading the modules"
total=$(wc -l <"$packages")

go build -v -trimpath -ldflags '-s -w' -o "$partial" . 2>"$lines" 9>&- &
job=$!
watch "$job" '^[A-Za-z0-9_./~@-]*$' "of at most $total packages compiled"
wait "$job" || failed "the build"
job=
chmod 0755 "$partial"
mv -f "$partial" "$binary"
say "built in $((SECONDS - began)) s"

# One older build is kept for switching branches; the rest is waste.
find "$cache" -maxdepth 1 -name "$name-????????????????" -printf '%T@ %p\n' | sort -rn | tail -n +3 | cut -d ' ' -f 2- | xargs -r rm -f
current
