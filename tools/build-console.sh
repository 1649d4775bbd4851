#!/usr/bin/env bash
# Builds the web console into console/dist, where the binary takes it from. What
# has not changed is not built again. Without Node the binary is still whole, and
# says at / what is missing; with the word "strict" that is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../console"

say() { printf 'build-console: %s\n' "$*" >&2; }

if ! command -v node >/dev/null || ! command -v npm >/dev/null ||
    ! node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)'; then
    say "the web console needs Node 20.19 or newer with npm, which is not here: going on without it"
    [[ ${1:-} != strict ]]
    exit
fi

# What was installed and built is recognised by the digest of what it was made of.
digest() { cat "$@" | sha256sum | cut -d' ' -f1; }
installed=$(digest package.json package-lock.json)
if [[ $(cat node_modules/.digest 2>/dev/null) != "$installed" ]]; then
    say "installing what the console is built with"
    npm ci --silent --no-audit --no-fund
    echo "$installed" >node_modules/.digest
fi

mapfile -t sources < <(find src -type f -not -path 'src/api/gen/*' | sort)
built=$(digest package-lock.json index.html gen.mjs vite.config.ts tsconfig.json ../contract/openapi.yaml "${sources[@]}")
if [[ $(cat dist/.digest 2>/dev/null) != "$built" ]]; then
    echo "building the web console"
    npm run --silent build
    echo "$built" >dist/.digest
fi
