#!/usr/bin/env bash
# Tries for HOURS what `make test` tries in minutes: first all tests
# with the race detector, then, with one seed after the other from SEED on, every
# fault in every stage, jobs while everything that takes part in them is killed
# ROUNDS times, fifty nodes that are rented and given back meanwhile, and a hundred
# operations on them. Goes on after a failure and says in the end which seeds failed; the same seed makes the same things go wrong.
set -uo pipefail
cd "$(dirname "$0")/.."
seed=${SEED:-1} rounds=${ROUNDS:-4}
end=$((SECONDS + $(awk -v hours="${HOURS:-4}" 'BEGIN {printf "%d", hours * 3600}')))
mkdir -p bin/soak
failed=()
try() { # name, command
    local began=$SECONDS
    if "${@:2}" >"bin/soak/$1.log" 2>&1; then
        echo "soak: ok, $((SECONDS - began)) s: $1"
    else
        failed+=("$1")
        echo "soak: FAILED after $((SECONDS - began)) s: $1; the end of bin/soak/$1.log:"
        tail -30 "bin/soak/$1.log"
    fi
}
kills() { # seed
    GPUAAS_SOAK_SEED=$1 GPUAAS_SOAK_ROUNDS=$rounds CGO_ENABLED=1 \
        go test -race -vet=off -count=1 -v -timeout 6h -run '^Test(Jobs|Renting)Outlives?EverythingThatIsKilled$' ./e2e
}

try race-unit env RACE=all make --no-print-directory unit
try race-e2e make --no-print-directory race-e2e
while ((SECONDS < end)); do
    try "faults-$seed" bin/gpuaas sim faults --seed "$seed" --report "bin/soak/faults-$seed.md"
    try "kills-$seed" kills "$seed"
    seed=$((seed + 1))
done
if ((${#failed[@]})); then
    echo "soak: failed: ${failed[*]}. Begin there again with make soak SEED=<its number>"
    exit 1
fi
echo "soak: everything held, up to seed $((seed - 1))"
