#!/usr/bin/env bash
# What to run before every commit: the linters, the tests that hold the generated
# files and the architecture, and the tests of the packages that changed since
# BASE, files that are not committed included. BASE is where this branch left
# main; where nothing was committed since, it is the last commit, and where
# nothing changed since that one either, the commit before.
set -euo pipefail
cd "$(dirname "$0")/.."

gotest() { # name, arguments of go test
    go test -json -vet=off "${@:2}" | tee "bin/test/$1.json" | bin/testreport
}
# tests runs the Go tests, on the stack that it is called with.
tests() { # packages that changed
    local rc=0
    rm -rf bin/test && mkdir -p bin/test
    # All tests of the first two would take minutes.
    gotest generated -run 'TestGeneratedFilesAreUpToDate|TestEveryOperationInEveryRole|Help' ./controlplane ./cli || rc=1
    gotest architecture ./archtest || rc=1
    if (($#)); then gotest changed "$@" || rc=1; fi
    bin/testreport -most 5 bin/test/*.json
    return $rc
}
if [[ ${1:-} == tests ]]; then
    "$@"
    exit
fi

base=${BASE:-$(git merge-base HEAD main 2>/dev/null || git merge-base HEAD origin/main 2>/dev/null || true)}
if [[ -z $base ]]; then base=HEAD; fi
if [[ -z ${BASE:-} && $(git rev-parse "$base") == "$(git rev-parse HEAD)" && -z $(git status --porcelain) ]]; then base=HEAD~1; fi
mapfile -t files < <({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | sort -u)
# packageOf prints the package that a file belongs to; it may be in a folder above.
packageOf() { # file
    local dir
    dir=$(dirname "$1")
    until [[ $dir == . ]] || compgen -G "$dir/*.go" >/dev/null; do dir=$(dirname "$dir"); done
    [[ $dir == . ]] || echo "./$dir"
}
mapfile -t packages < <(for file in "${files[@]}"; do packageOf "$file"; done | sort -u)
mapfile -t tested < <(printf '%s\n' "${packages[@]}" | grep -vE '^(\./e2e)?$')
echo "check: ${#files[@]} files changed since $base, in ${#packages[@]} packages"

if ((${#packages[@]})); then go tool -modfile=tools/lint/go.mod golangci-lint run "${packages[@]}"; fi
if printf '%s\n' "${files[@]}" | grep -q '^console/'; then
    (cd console && npm run --silent lint && npm run --silent test)
fi
tools/gen-check.sh
bin/withstack -- tools/check.sh tests "${tested[@]}"
