#!/usr/bin/env bash
# Tries an upgrade for real: the program of commit FROM brings four machines of a
# lab into service, begins to reimage one and to reset another, and onboards
# twenty more. In the middle of it every process is killed, and the program of
# this tree goes on with the same state folder. All jobs must end well, and all
# nodes must be in service.
set -euo pipefail
cd "$(dirname "$0")/.."
from=${FROM:?name the commit to upgrade from: make upgrade-trial FROM=<commit>}
work=$(mktemp -d)
up=
family() {
    echo "$1"
    local child
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do family "$child"; done
}
finish() {
    if [[ -n $up ]]; then kill -INT "$up" 2>/dev/null || true; wait "$up" 2>/dev/null || true; fi
    git worktree remove --force "$work/old" 2>/dev/null || true
    if [[ ${failed:-1} == 0 ]]; then rm -rf "$work"; else echo "upgrade: FAILED; logs and state are in $work"; fi
}
trap finish EXIT
export XDG_CONFIG_HOME=$work/config

start() { # program, name
    "$1" up --state "$work/state" --hardware-speed 60 >"$work/$2.log" 2>&1 &
    up=$!
    until grep -qs 'gpuaas is ready' "$work/$2.log"; do
        kill -0 "$up" 2>/dev/null || { cat "$work/$2.log"; exit 1; }
        sleep 0.1
    done
    "$1" login --url "$(grep -o 'http://[0-9.:]*' "$work/$2.log" | tail -1)" --token-file "$work/state/admin-token" >/dev/null
    echo "upgrade: $2 is ready after $SECONDS s"
}
# standing prints how many jobs are in which state.
standing() { # program
    for noun in onboarding decommission; do
        "$1" "$noun" list -o json | grep -o '"status": *"[a-z_]*"' | cut -d'"' -f4 | sort | uniq -c | awk -v noun="$noun" '{printf " %s %s %d;", noun, $2, $1}'
    done
}

git worktree add --quiet --detach "$work/old" "$from"
make --no-print-directory -C "$work/old" build servers >"$work/build.log" 2>&1 || { tail "$work/build.log"; exit 1; }
old=$work/old/bin/gpuaas
start "$old" before
"$old" sim site --state "$work/state" --csv "$work/lab.csv" >/dev/null
head -5 "$work/lab.csv" >"$work/first.csv"
{ head -1 "$work/lab.csv"; sed -n '6,25p' "$work/lab.csv"; } >"$work/rest.csv"
"$old" onboard --csv "$work/first.csv" --site lab --sku h200-sxm-baremetal-8g --wait >"$work/first.log" 2>&1 || { tail "$work/first.log"; exit 1; }
mapfile -t first < <(tail -n +2 "$work/first.csv" | cut -d, -f1)
"$old" onboard --csv "$work/rest.csv" --site lab --sku h200-sxm-baremetal-8g >/dev/null
"$old" decommission start "${first[0]}" --mode reimage --reason "upgrade under way" --yes >/dev/null
"$old" decommission start "${first[1]}" --mode soft_reset --reason "upgrade under way" --yes >/dev/null
sleep "${UNDER_WAY:-8}"
echo "upgrade: killed with$(standing "$old")"
mapfile -t pids < <(family "$up")
kill -KILL "${pids[@]}" 2>/dev/null || true
wait "$up" 2>/dev/null || true

start bin/gpuaas after
began=$SECONDS
until ! standing bin/gpuaas | grep -qE 'pending|running|compensating'; do
    if ((SECONDS - began > ${LIMIT:-600})); then break; fi
    sleep 2
done
result=$(standing bin/gpuaas)
echo "upgrade: $((SECONDS - began)) s later:$result"
serving=$(bin/gpuaas node list -o json | grep -c '"status": *"active"')
echo "upgrade: $serving of 24 nodes in service"
if [[ $result == " onboarding completed 24; decommission completed 2;" && $serving == 24 ]]; then failed=0; fi
exit "${failed:-1}"
