#!/usr/bin/env bash
# Reports what in the API contract would break clients, against the newest tag
# or, before the first one, the commit before this.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${BASE:-$(git describe --tags --abbrev=0 2>/dev/null || echo HEAD~1)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if ! git show "$base:contract/openapi.yaml" >"$work/base.yaml" 2>/dev/null; then
    echo "contract: no earlier version to compare with"
    exit 0
fi
echo "contract: changes since $base that would break clients:"
go tool -modfile=tools/oasdiff/go.mod oasdiff breaking "$work/base.yaml" contract/openapi.yaml
echo "contract: done"
