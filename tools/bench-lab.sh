# shellcheck shell=bash
# What benchmarks against a lab have in common: it is sourced, with $machines set.
# Machines take no time, agents are simulated, and everything runs on this machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
export XDG_CONFIG_HOME=$work/config

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
# used prints what went by between two snapshots of cpu, for each of so many.
used() { # number
    awk -v n="$1" 'NR == FNR {before[$1] = $2; next} {d = ($2 - before[$1]) / n; total += d; parts = parts sprintf(", %s %.3f", $1, d)}
        END {printf "%.3f%s", total, parts}' "$work/before" "$work/after"
}

bin/gpuaas sim lab --state "$work/lab" --kind agents --machines "$machines" >"$work/lab.log" 2>&1 &
lab=$!; pids+=("$lab")
await "$work/lab.log" 'lab of' "$lab"
maas=$(grep -o '"maas_url": *"[^"]*"' "$work/lab/lab.json" | grep -o '[0-9.]\+:[0-9]\+')
control=$(grep -o '"control_url": *"[^"]*"' "$work/lab/lab.json" | cut -d'"' -f4)
bin/gpuaas up --state "$work/state" --rack none --nodes-newcomer-rate 5000 --sites-loopback "$maas" --nodes-ssh-proxy "$(grep -o 'socks5://[0-9.:]*' "$work/lab.log")" >"$work/up.log" 2>&1 &
up=$!; pids=("$up" "$lab")
await "$work/up.log" 'gpuaas is ready' "$up"
bin/gpuaas login --url "$(grep -o 'http://[0-9.:]*' "$work/up.log" | tail -1)" --token-file "$work/state/admin-token" >/dev/null
bin/gpuaas sim site --state "$work/lab" --csv "$work/all.csv" >/dev/null
bin/gpuaas site update lab --max-parallel 60 >/dev/null
bin/gpuaas site profile set lab default batch_max_parallel=60 >/dev/null
