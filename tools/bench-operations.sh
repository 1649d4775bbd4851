#!/usr/bin/env bash
# Measures operations on simulated agents that fetch signed tasks and answer them, on this
# machine: from the request to the first step on a node, how fast logs are kept and how
# late they are seen, and one run over all nodes with five trivial steps each.
. "$(dirname "$0")/bench-common.sh"
nodes=${NODES:-1000}
bin/gpuaas up --state "$work/state" --rack none --nodes-newcomer-rate 5000 >"$work/up.log" 2>&1 &
up=$!; pids=("$up")
await "$work/up.log" 'gpuaas is ready' "$up"
url=$(grep -o 'http://[0-9.:]*' "$work/up.log" | tail -1)
bin/gpuaas login --url "$url" --token-file "$work/state/admin-token" >/dev/null 2>&1
{
    cat <<'DEFINITION'
type: bench.trivial
version: v1
title: Five steps that only look
risk: low
risk_text: none
targets: [node, group]
safety: {rented: any}
max_duration_seconds: 600
inputs: {type: object, additionalProperties: false, properties: {}}
steps:
DEFINITION
    for step in one two three four five; do
        echo "  - {id: $step, kind: health.check, timeout_seconds: 30, with: {probes: [{kind: file, path: /etc/os-release}]}}"
    done
} >"$work/trivial.yaml"
bin/gpuaas operation definition apply -f "$work/trivial.yaml" --activate >/dev/null
echo "== operations on $nodes simulated agents, everything on these $(nproc) cores; load before: $(cut -d' ' -f1 /proc/loadavg)"
bin/gpuaas sim fleet --url "$url" --node-url "https://127.0.0.1:$(cat "$work/state/node-port")" --token-file "$work/state/admin-token" \
    --at-once 32 --agents "$nodes" --operation bench.trivial@v1 >"$work/fleet.log" 2>&1 &
fleet=$!; pids=("$up" "$fleet")
await "$work/fleet.log" 'submission to first' "$fleet"
cpu >"$work/before"
await "$work/fleet.log" 'logs of' "$fleet"
cpu >"$work/after"
kept=$(used "$(grep -o '[0-9.]* MB in' "$work/fleet.log" | cut -d' ' -f1)")
await "$work/fleet.log" 'operations measured' "$fleet"
sed '/measured\|running/d; s/^/  /' "$work/fleet.log"
echo "  CPU-seconds for a megabyte of logs: $kept"
cpu >"$work/before"
began=$(date +%s.%N)
bin/gpuaas operation run bench.trivial@v1 --region sim --no-ramp --max-concurrency "${CONCURRENCY:-1000}" --wait --interval 100ms -o json >"$work/run.json" 2>"$work/run.log"
ended=$(date +%s.%N)
cpu >"$work/after"
python3 - "$work/run.json" <<'PYTHON'
import json, sys
from datetime import datetime
run = json.load(open(sys.argv[1]))
took = datetime.fromisoformat(run["finished_at"]) - datetime.fromisoformat(run["created_at"])
print(f'  {run["targets"]["succeeded"]} of {run["targets"]["total"]} nodes x {run["total_steps"]} steps: {took.total_seconds():.1f} s, {run["status"]}')
PYTHON
awk -v began="$began" -v ended="$ended" 'BEGIN {printf "  seen by the command line after %.1f s\n", ended - began}'
echo "  CPU-seconds a node: $(used "$nodes"); load after: $(cut -d' ' -f1 /proc/loadavg)"
