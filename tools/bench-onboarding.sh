#!/usr/bin/env bash
# Measures onboarding against a lab whose machines take no time, on this machine:
# nodes a minute, CPU-seconds a node by process, requests to MAAS a node, memory,
# and what a thousand parked workflows cost.
machines=${MACHINES:-2500}
. "$(dirname "$0")/bench-lab.sh"
memory() { awk '/^VmRSS/{printf "%d MiB", $2 / 1024}' "/proc/$1/status"; }
requests() { curl -fsS "$control/status" | grep -o '"requests":[0-9]*' | cut -d: -f2; }
# part writes the next machines of the list to a list of their own.
part() { awk -v from="$((next + 1))" -v to="$((next + $1))" 'NR == 1 || NR >= from && NR <= to' "$work/all.csv" >"$work/part.csv"; }
# batch onboards the next machines of the list and prints what that took.
batch() {
    local n=$1 before after began took asked
    part "$n"
    next=$((next + n))
    cpu >"$work/before"; asked=$(requests); began=$(date +%s.%N)
    bin/gpuaas onboard --csv "$work/part.csv" --site lab --sku h200-sxm-baremetal-8g --wait >"$work/onboard.log" 2>&1 || { tail -5 "$work/onboard.log"; exit 1; }
    took=$(date +%s.%N); cpu >"$work/after"
    awk -v n="$n" -v began="$began" -v ended="$took" -v asked="$(($(requests) - asked))" -v used="$(used "$n")" 'BEGIN {
        printf "batch of %d: %.1f s, %.0f nodes/min; CPU-seconds a node: %s; requests to MAAS a node: %.1f\n", n, ended - began, n * 60 / (ended - began), used, asked / n}'
    echo "  memory afterwards: control plane $(memory "$up"), simulator $(memory "$lab")"
}

next=1
echo "== onboarding, hardware time zero, everything on these $(nproc) cores"
batch 1
for size in ${BATCHES-200 200}; do batch "$size"; done
batch "${LARGE:-1000}"

# idle prints what engines and control plane use while nothing happens.
idle() {
    cpu >"$work/before"; sleep 30; cpu >"$work/after"
    awk -v what="$1" 'NR == FNR {before[$1] = $2; next} $1 !~ /simulator/ {total += $2 - before[$1]} END {printf "%s: %.1f %% of a core, engines included\n", what, total / 30 * 100}' "$work/before" "$work/after"
}
sleep 20
idle "idle, nothing parked"
curl -fsS -X POST "$control/faults" -d '{"machine":"*","fault":"commissioning_fails"}' >/dev/null
n=${PARKED:-1000}
part "$n"
bin/gpuaas onboard --csv "$work/part.csv" --site lab --sku h200-sxm-baremetal-8g --wait >"$work/onboard.log" 2>&1 || true
sleep 20
idle "idle, $(bin/gpuaas onboarding batch list --no-headers | awk 'NR == 1 {print $5}') parked"
