"""Asks a control plane for allocations and gives them back, and prints how long that took.

Usage: bench-allocation.py URL-OF-ALLOCATIONS TOKEN-FILE one|create|release NUMBER
"""
import concurrent.futures
import datetime
import json
import sys
import time
import urllib.error
import urllib.request

url, token_file, what, number = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with open(token_file, encoding="utf-8") as f:
    token = f.read().strip()


def call(method, path="", body=None):
    request = urllib.request.Request(url + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                     headers={"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        sys.exit("%s %s: %s" % (method, path, e.read().decode()))


def create(_=None):
    return call("POST", body={"sku": "h200-sxm-baremetal-8g"})["allocations"][0]["allocation_id"]


def release(of):
    call("POST", "/" + of + "/release", {})


def listed(status):
    """All allocations in a status, page by page."""
    found, cursor = [], ""
    while True:
        page = call("GET", "?page_size=200&status=%s&cursor=%s" % (status, cursor))
        found += page["items"]
        cursor = page.get("next_cursor") or ""
        if not cursor:
            return found


def ended(of, status, pause):
    """Waits until these allocations have a status, and returns them."""
    while True:
        there = [a for a in listed(status) if a["allocation_id"] in of]
        if len(there) == len(of):
            return there
        for bad in ("failed", "release_failed"):
            for a in listed(bad):
                if a["allocation_id"] in of:
                    sys.exit("allocation %s is %s: %s" % (a["allocation_id"], bad, json.dumps(a)))
        time.sleep(pause)


def between(a, first, last):
    at = [datetime.datetime.fromisoformat(a[k].replace("Z", "+00:00")) for k in (first, last)]
    return (at[1] - at[0]).total_seconds()


def quantiles(rows):
    rows = sorted(rows)
    return "p50 %.3f s, p99 %.3f s, slowest %.3f s" % (rows[len(rows) // 2], rows[len(rows) * 99 // 100], rows[-1])


def at_once(do, over):
    with concurrent.futures.ThreadPoolExecutor(len(over)) as pool:
        return list(pool.map(do, over))


if what == "one":
    rows, back = [], []
    for _ in range(number):
        of = {create()}
        rows += [between(a, "created_at", "active_at") for a in ended(of, "active", 0.02)]
        release(next(iter(of)))
        back += [between(a, "release_requested_at", "released_at") for a in ended(of, "released", 0.02)]
    print("%d allocations one at a time, from created to active: %s" % (number, quantiles(rows)))
    print("%d releases one at a time, from asked for to proven clean: %s" % (number, quantiles(back)))
else:
    began = time.time()
    if what == "create":
        of, status = set(at_once(create, range(number))), "active"
        print("%d requests at once were answered after %.1f s" % (number, time.time() - began))
    else:
        of, status = {a["allocation_id"] for a in listed("active")}, "released"
        at_once(release, list(of))
    there = ended(of, status, 0.2)
    took = time.time() - began
    print("%d at once %s: %.1f s, %.0f a minute" % (len(of), status, took, len(of) * 60 / took))
    if what == "create":
        print("  from created to active: %s" % quantiles([between(a, "created_at", "active_at") for a in there]))
