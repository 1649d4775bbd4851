# shellcheck shell=bash
# What benchmarks of a whole control plane have in common: it is sourced. The processes
# whose time counts are in pids; they are stopped in the end.
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
    for pid in $(for of in "${pids[@]}"; do family "$of"; done); do
        [ -r "/proc/$pid/stat" ] || continue
        awk -v command="$(tr '\0' ' ' <"/proc/$pid/cmdline")" '{
            kind = command ~ /sim (lab|fleet)/ ? "simulator+agents" : command ~ /postgres/ ? "postgresql" : command ~ / bao/ ? "openbao" : command ~ /temporal/ ? "temporal" : "controlplane"
            sub(/^[^)]*\) /, ""); print kind, ($12 + $13 + $14 + $15) / 100 }' "/proc/$pid/stat"
    done | awk '{sum[$1] += $2} END {for (k in sum) print k, sum[k]}' | sort
}
# used prints what went by between two snapshots of cpu, for each of so many.
used() { # number
    awk -v n="$1" 'NR == FNR {before[$1] = $2; next} {d = ($2 - before[$1]) / n; total += d; parts = parts sprintf(", %s %.3f", $1, d)}
        END {printf "%.3f%s", total, parts}' "$work/before" "$work/after"
}
