#!/usr/bin/env bash
# Measures allocations against a lab whose machines and agents take no time, on this
# machine: from the request to active one at a time, and how many creations and
# releases a minute when many are asked for at once.
machines=${MACHINES:-210}
. "$(dirname "$0")/bench-lab.sh"
bin/gpuaas onboard --csv "$work/all.csv" --site lab --sku h200-sxm-baremetal-8g --wait >"$work/onboard.log" 2>&1 || { tail -5 "$work/onboard.log"; exit 1; }
bin/gpuaas tenant create bench --name bench >/dev/null
project=$(bin/gpuaas project create training --tenant bench -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["project_id"])')
echo "== allocations, hardware time zero, everything on these $(nproc) cores"
url=$(grep -o 'http://[0-9.:]*' "$work/up.log" | tail -1)
rent() { python3 tools/bench-allocation.py "$url/api/v1/projects/$project/allocations" "$work/state/admin-token" "$@"; }
n=${ALLOCATIONS:-200}
rent one "${SINGLE:-50}"
for what in create release; do
    cpu >"$work/before"
    rent "$what" "$n"
    cpu >"$work/after"
    echo "  CPU-seconds each: $(used "$n")"
done
