#!/usr/bin/env bash
# Measures onboarding against a lab whose machines take no time, on this machine:
# nodes a minute, CPU-seconds a node by process, requests to MAAS a node, memory,
# and what a thousand parked workflows cost.
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
machines=${MACHINES:-2500}

await() { # file, text, pid
    until grep -qs "$2" "$1"; do
        kill -0 "$3" 2>/dev/null || { cat "$1" >&2; exit 1; }
        sleep 0.1
    done
}
family() {
    echo "$1"
    local child
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do family "$child"; done
}
# cpu prints CPU-seconds since the start by what uses them.
cpu() {
    local pid
    for pid in $(family "$up") $(family "$lab"); do
        [ -r "/proc/$pid/stat" ] || continue
        awk -v command="$(tr '\0' ' ' <"/proc/$pid/cmdline")" '{
            kind = command ~ /sim lab/ ? "simulator+agents" : command ~ /postgres/ ? "postgresql" : command ~ / bao/ ? "openbao" : command ~ /temporal/ ? "temporal" : "controlplane"
            sub(/^[^)]*\) /, ""); print kind, ($12 + $13 + $14 + $15) / 100 }' "/proc/$pid/stat"
    done | awk '{sum[$1] += $2} END {for (k in sum) print k, sum[k]}' | sort
}
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
    awk -v n="$n" -v began="$began" -v ended="$took" -v asked="$(($(requests) - asked))" '
        NR == FNR {before[$1] = $2; next} {d = ($2 - before[$1]) / n; total += d; parts = parts sprintf(", %s %.3f", $1, d)}
        END {printf "batch of %d: %.1f s, %.0f nodes/min; CPU-seconds a node: %.3f%s; requests to MAAS a node: %.1f\n", n, ended - began, n * 60 / (ended - began), total, parts, asked / n}' "$work/before" "$work/after"
    echo "  memory afterwards: control plane $(memory "$up"), simulator $(memory "$lab")"
}

bin/gpuaas sim lab --state "$work/lab" --kind agents --machines "$machines" >"$work/lab.log" 2>&1 &
lab=$!; pids+=("$lab")
await "$work/lab.log" 'lab of' "$lab"
control=$(grep -o '"control_url": *"[^"]*"' "$work/lab/lab.json" | cut -d'"' -f4)
bin/gpuaas up --state "$work/state" --rack none --nodes-newcomer-rate 5000 --nodes-ssh-proxy "$(grep -o 'socks5://[0-9.:]*' "$work/lab.log")" >"$work/up.log" 2>&1 &
up=$!; pids=("$up" "$lab")
await "$work/up.log" 'gpuaas is ready' "$up"
bin/gpuaas login --url "$(grep -o 'http://[0-9.:]*' "$work/up.log" | tail -1)" --token-file "$work/state/admin-token" >/dev/null
bin/gpuaas sim site --state "$work/lab" --csv "$work/all.csv" >/dev/null
bin/gpuaas site update lab --max-parallel 60 >/dev/null
bin/gpuaas site profile set lab default batch_max_parallel=60 >/dev/null
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
