#!/usr/bin/env bash
# Measures what docs/benchmarks.md reports, on this machine, and prints it.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
launcher=
finish() {
    if [ -n "$launcher" ]; then
        kill -INT "$launcher" 2>/dev/null || true
        wait "$launcher" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap finish EXIT

# up starts a control plane in the background and waits until it is ready.
up() {
    bin/gpuaas up --state "$work/state" --rack none "$@" >"$work/up.log" 2>&1 &
    launcher=$!
    until grep -q 'gpuaas is ready' "$work/up.log"; do
        kill -0 "$launcher" 2>/dev/null || { cat "$work/up.log" >&2; exit 1; }
        sleep 0.1
    done
    grep -o 'ready after.*' "$work/up.log"
}
down() {
    kill -INT "$launcher"
    wait "$launcher" || true
    launcher=
}
rss() { awk '/^VmRSS/{print $2}' "/proc/$1/status"; }
# pss counts shared pages once among the processes that share them.
pss() { awk '/^Pss:/{print $2}' "/proc/$1/smaps_rollup" 2>/dev/null || echo 0; }
family() {
    echo "$1"
    local child
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do family "$child"; done
}

echo "machine: $(nproc) cores, $(awk '/MemTotal/{printf "%.0f GiB", $2/1048576}' /proc/meminfo), $(go version | cut -d' ' -f3), $(date -u +%F)"
echo
echo "== start"
echo -n "first start, empty state folder: "; up
down
echo -n "warm start, engines and control plane: "; up
sleep 20 # idle, so that memory settles
total=0
for pid in $(family "$launcher"); do total=$((total + $(pss "$pid"))); done
echo "memory after 20 s idle: whole stack $((total / 1024)) MiB (proportional set size), launcher with control plane and NATS $(($(rss "$launcher") / 1024)) MiB (resident)"
url=$(grep -o 'http://[0-9.:]*' "$work/up.log" | tail -1)
echo
echo "== API under load: 200 requests/s for 15 s"
GPUAAS_URL=$url GPUAAS_BENCH_TOKEN_FILE=$work/state/admin-token \
    go test ./e2e/load -run '^$' -bench BenchmarkGet -benchtime 3000x | grep Benchmark
down
echo
echo "== nodes: simulated agents with keys and connections of their own, on the same two cores"
# fleet runs agents against the control plane that is up.
fleet() {
    bin/gpuaas sim fleet --url "$url" --node-url "https://127.0.0.1:$(cat "$work/state/node-port")" \
        --token-file "$work/state/admin-token" --at-once 32 "$@"
}
rm -rf "$work/state"
echo -n "first start: "; up --nodes-newcomer-rate 5000
url=$(grep -o 'http://[0-9.:]*' "$work/up.log" | tail -1)
fleet --agents 10000 --measure 30s --rate 100
echo "control plane, launcher and NATS with 10,000 agents: $(($(rss "$launcher") / 1024)) MiB resident"
down
rm -rf "$work/state"
echo -n "first start: "; up --nodes-newcomer-rate 5000
url=$(grep -o 'http://[0-9.:]*' "$work/up.log" | tail -1)
bin/gpuaas sim fleet --url "$url" --node-url "https://127.0.0.1:$(cat "$work/state/node-port")" \
    --token-file "$work/state/admin-token" --at-once 32 --agents 5000 >"$work/fleet.log" 2>&1 &
agents=$!
for _ in $(seq 300); do
    if grep -q running "$work/fleet.log"; then break; fi
    sleep 1
done
grep -q running "$work/fleet.log" || { cat "$work/fleet.log" >&2; exit 1; }
sleep 60 # the first polls of all come at once; afterwards they have spread
ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }
before=$(ticks "$launcher")
sleep 60
echo "idle with 5,000 agents: $(awk -v t="$(($(ticks "$launcher") - before))" 'BEGIN{printf "%.1f", t / 60}') % of a core for control plane, launcher and NATS"
kill "$agents"
wait "$agents" 2>/dev/null || true
down
bin/withstack -- go test -run '^$' -bench . ./controlplane/internal/fleet/node | grep Benchmark
bin/withstack -- go test -run '^$' -bench . ./controlplane/internal/fleet/agenttask | grep Benchmark
bin/withstack -- go test -run '^$' -bench . -benchtime 50x ./controlplane/internal/rent/allocation | grep Benchmark
bin/withstack -- go test -run '^$' -bench . ./controlplane/internal/engine/secrets ./controlplane/internal/fleet/signer | grep Benchmark
echo
echo "== agent"
ls -l bin/agent/*/ | awk '/gpuaas/{print $9 ": " $5 " bytes"}'
GPUAAS_TEST_IDLE=60s go test ./agent -run TheProgram -v | grep -E 'resident|CPU|idle' || true
echo
echo "== outbox, authentication, test databases"
bin/withstack -- go test -run '^$' -bench 'BenchmarkRelay$' -benchtime 50000x ./controlplane/internal/engine/outbox | grep Benchmark
bin/withstack -- go test -run '^$' -bench 'BenchmarkCommit' -benchtime 2000x ./controlplane/internal/engine/outbox | grep Benchmark
bin/withstack -- go test -run '^$' -bench 'BenchmarkAuthenticate' ./controlplane/internal/people/identity | grep Benchmark
bin/withstack -- go test -run '^$' -bench 'BenchmarkClone' ./stack/stacktest | grep Benchmark
echo
echo "== money: 100,000 live allocations; a tenant with 10,000 allocations and 240,000 entries in a month"
bin/withstack -- go test -run '^$' -bench 'BenchmarkEvaluate' -benchtime 5x ./controlplane/internal/money/balance | grep Benchmark
bin/withstack -- go test -run '^$' -bench 'BenchmarkBalance' -benchtime 200x ./controlplane/internal/money/balance | grep Benchmark
go test -run '^$' -bench 'BenchmarkPriceChanges' ./controlplane/internal/money/rating | grep Benchmark
bin/withstack -- go test -run '^$' -bench 'BenchmarkOpenMonth|BenchmarkStatement|BenchmarkCheck' -benchtime 3x ./controlplane/internal/money/statement | grep Benchmark
bin/withstack -- go test -run '^$' -bench 'BenchmarkCloseMonth' -benchtime 1x ./controlplane/internal/money/statement | grep Benchmark
echo
echo "== MAAS client and simulator"
GOMAXPROCS=1 go test -run '^$' -bench 'BenchmarkSimulatorRead' -benchtime 3s ./controlplane/internal/adapter/maas/conformance | grep Benchmark
go test -run '^$' -bench 'BenchmarkThousandWaits' -benchtime 1x ./controlplane/internal/adapter/maas | grep Benchmark
go test -run '^$' -bench 'BenchmarkChunkOfFifty' ./sim/maas | grep Benchmark
echo
echo "== disk verification, against dd on the same loop device"
go test -run '^$' -bench 'BenchmarkVerifyRead' -benchtime 5x ./agent/internal/sanitize | grep Benchmark
echo
tools/bench-onboarding.sh
tools/bench-decommission.sh
tools/bench-allocation.sh
tools/bench-reconciliation.sh
tools/bench-operations.sh
tools/bench-console.sh
