#!/usr/bin/env bash
# Measures reconciliation against simulated regions in processes of their own, on
# this machine: a site of 10,000 machines of which 1 % change from cycle to cycle,
# and 50 sites of 500 machines in one period. What the benchmark's process uses is
# what the control plane uses; PostgreSQL is a process of its own, too.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill -INT "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT

# regions starts so many regions with so many deployed machines each.
regions() { # number, machines
    local n
    for pid in "${pids[@]}"; do kill -INT "$pid"; wait "$pid" || true; done
    pids=()
    : >"$work/regions"
    for n in $(seq "$1"); do
        bin/gpuaas sim maas --listen 127.0.0.1:0 --control 127.0.0.1:0 --machines "$2" --stage deployed --timing zero --seed "$n" >"$work/region.$n" 2>&1 &
        pids+=("$!")
    done
    for n in $(seq "$1"); do
        until grep -qs 'Control API' "$work/region.$n"; do
            kill -0 "${pids[n - 1]}" 2>/dev/null || { cat "$work/region.$n" >&2; exit 1; }
            sleep 0.1
        done
        awk '/^MAAS URL/ {url = $3} /^API token/ {token = $3} /^Control API/ {print url, token, $3}' "$work/region.$n" >>"$work/regions"
    done
}
# measure prints each figure of a benchmark on a line of its own.
measure() { # benchmark, times
    GPUAAS_BENCH_REGIONS=$work/regions bin/withstack -- "$work/reconciliation.test" -test.run '^$' -test.bench "^$1\$" -test.benchtime "$2x" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
    awk '/^Benchmark/ {for (i = 3; i < NF; i += 2) if ($(i + 1) == "ns/op") printf "  %10.3f s/cycle\n", $i / 1e9; else printf "  %10.3f %s\n", $i, $(i + 1)}' "$work/log" | sort -k 2
}

go test -c -o "$work/reconciliation.test" ./controlplane/internal/work/reconciliation
echo "== one site of 10,000 machines, 1 % changed in each cycle, everything on these $(nproc) cores"
regions 1 10000
measure BenchmarkCycle10k "${CYCLES:-12}"
echo "== 50 sites of 500 machines, 1 % changed; a cycle is one of every site"
regions 50 500
measure BenchmarkFiftySites "${PERIODS:-3}"
