#!/usr/bin/env bash
# Measures decommissions against a lab whose machines and agents take no time, on
# this machine: how long one soft reset and one reimage take, and how many soft
# resets a minute when many are asked for at once.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
export XDG_CONFIG_HOME=$work/config
machines=${MACHINES:-210}
await() { # file, text, pid
    until grep -qs "$2" "$1"; do
        kill -0 "$3" 2>/dev/null || { cat "$1" >&2; exit 1; }
        sleep 0.1
    done
}
bin/gpuaas sim lab --state "$work/lab" --kind agents --machines "$machines" >"$work/lab.log" 2>&1 &
lab=$!; pids+=("$lab")
await "$work/lab.log" 'lab of' "$lab"
bin/gpuaas up --state "$work/state" --rack none --nodes-newcomer-rate 5000 --nodes-ssh-proxy "$(grep -o 'socks5://[0-9.:]*' "$work/lab.log")" >"$work/up.log" 2>&1 &
up=$!; pids=("$up" "$lab")
await "$work/up.log" 'gpuaas is ready' "$up"
bin/gpuaas login --url "$(grep -o 'http://[0-9.:]*' "$work/up.log" | tail -1)" --token-file "$work/state/admin-token" >/dev/null
bin/gpuaas sim site --state "$work/lab" --csv "$work/all.csv" >/dev/null
bin/gpuaas site update lab --max-parallel 60 >/dev/null
bin/gpuaas site profile set lab default batch_max_parallel=60 >/dev/null
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
for node in "${nodes[@]:0:5}"; do bin/gpuaas node reset "$node" --reason bench --wait >/dev/null; done
took soft_reset
for node in "${nodes[@]:5:5}"; do bin/gpuaas node reimage "$node" --reason bench --erase none --yes --wait >/dev/null; done
took reimage
n=${RESETS:-200}
ids=$(bin/gpuaas node list -o json | python3 -c 'import json,sys; print(" ".join(n["node_id"] for n in json.load(sys.stdin)[-int(sys.argv[1]):]))' "$n")
args=(); for i in $ids; do args+=(--node "$i"); done
began=$(date +%s.%N)
bin/gpuaas decommission batch start --mode soft_reset "${args[@]}" --max-parallel "${PARALLEL:-60}" --max-failures 0 --reason bench --yes --wait >"$work/batch.log" 2>&1 || { tail -5 "$work/batch.log"; exit 1; }
awk -v n="$n" -v began="$began" -v ended="$(date +%s.%N)" 'BEGIN {printf "%d soft resets at once: %.1f s, %.0f a minute\n", n, ended - began, n * 60 / (ended - began)}'
