#!/usr/bin/env bash
# Fails when a generated file differs from what its source would give. The
# contracts and pages are held by TestGeneratedFilesAreUpToDate; here are the
# files that other tools write.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

go tool -modfile=tools/sqlc/go.mod sqlc diff

sed "s|^output:.*|output: $work/client.gen.go|" contract/apiclient/oapi-codegen.yaml >"$work/config.yaml"
go tool -modfile=tools/oapi/go.mod oapi-codegen -config "$work/config.yaml" contract/openapi.yaml
if ! diff -q "$work/client.gen.go" contract/apiclient/client.gen.go >/dev/null; then
    echo "contract/apiclient/client.gen.go is stale; run: make gen" >&2
    exit 1
fi
echo "generated files are up to date"
