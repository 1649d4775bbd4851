# shellcheck shell=bash
# What benchmarks against a lab have in common: it is sourced, with $machines set.
# Machines take no time, agents are simulated, and everything runs on this machine.
. "$(dirname "${BASH_SOURCE[0]}")/bench-common.sh"
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
