#!/usr/bin/env bash
# Measures decommissions against a lab whose machines and agents take no time, on
# this machine: how long one soft reset and one reimage take, and how many soft
# resets a minute when many are asked for at once.
machines=${MACHINES:-210}
. "$(dirname "$0")/bench-lab.sh"
bin/gpuaas onboard --csv "$work/all.csv" --site lab --sku h200-sxm-baremetal-8g --wait >"$work/onboard.log" 2>&1 || { tail -5 "$work/onboard.log"; exit 1; }
echo "== decommission, hardware time zero, everything on these $(nproc) cores"
# took prints how long the newest operations of a mode took, from request to end.
took() { # mode
    bin/gpuaas decommission list --mode "$1" --status completed -o json | python3 -c '
import json, sys, datetime
at = lambda t: datetime.datetime.fromisoformat(t.replace("Z", "+00:00"))
rows = sorted((at(d["completed_at"]) - at(d["requested_at"])).total_seconds() for d in json.load(sys.stdin))
print("%s: %d, fastest %.2f s, median %.2f s, slowest %.2f s" % (sys.argv[1], len(rows), rows[0], rows[len(rows) // 2], rows[-1]))' "$1"
}
nodes=($(tail -n +2 "$work/all.csv" | cut -d, -f1 | head -10))
for node in "${nodes[@]:0:5}"; do bin/gpuaas node reset "$node" --reason bench --yes --wait >/dev/null 2>&1; done
took soft_reset
for node in "${nodes[@]:5:5}"; do bin/gpuaas node reimage "$node" --reason bench --erase none --yes --wait >/dev/null 2>&1; done
took reimage
n=${RESETS:-200}
ids=$(bin/gpuaas node list -o json | python3 -c 'import json,sys; print(" ".join(n["node_id"] for n in json.load(sys.stdin)[-int(sys.argv[1]):]))' "$n")
args=(); for i in $ids; do args+=(--node "$i"); done
cpu >"$work/before"; began=$(date +%s.%N)
bin/gpuaas decommission batch start --mode soft_reset "${args[@]}" --max-parallel "${PARALLEL:-60}" --max-failures 0 --reason bench --yes --wait >"$work/batch.log" 2>&1 || { tail -5 "$work/batch.log"; exit 1; }
ended=$(date +%s.%N); cpu >"$work/after"
awk -v n="$n" -v began="$began" -v ended="$ended" -v used="$(used "$n")" 'BEGIN {
    printf "%d soft resets at once: %.1f s, %.0f a minute; CPU-seconds each: %s\n", n, ended - began, n * 60 / (ended - began), used}'
