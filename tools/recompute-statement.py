#!/usr/bin/env python3
"""Recomputes a statement from its CSV, by the formula and nothing else.

    gpuaas billing statement show open --tenant acme --as csv | tools/recompute-statement.py

It knows neither the product nor its database: seconds are counted from the times of each line, the cost is
price x paid share x units x seconds / 3600, cut off, and all amounts are added up. Of reserved nodes that were not used the
line says how many seconds they are together. It ends with 1 where a line or the closing balance is not what it computes.
"""
import csv
import sys
from datetime import datetime
from fractions import Fraction


def micros(text):
    at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int(at.timestamp()) * 1_000_000 + at.microsecond


def decimals(text):
    return len(text.partition(".")[2])


rows = list(csv.DictReader(sys.stdin))
if not rows:
    sys.exit("there are no lines: is this the CSV of a statement?")
scale = 10 ** max(decimals(r["amount"]) for r in rows)
month = next(micros(r["to"]) for r in rows if r["kind"] == "opening")
total, wrong, used = Fraction(0), 0, 0
began, costs = {}, {}  # of each allocation: its first moment here, and its exact cost so far
for r in rows:
    booked = Fraction(r["amount"])
    if r["kind"] == "closing":
        print(f"computed {float(total):.2f}, the statement closes with {r['amount']} {r['currency']}")
        wrong += total != booked
        continue
    if r["kind"] == "reserved":
        second = Fraction(r["unit_hour"]) * int(r["paid_share"]) * int(r["units"]) / (10_000 * 3600)
        cost = Fraction(second * int(r["seconds"]) * scale // 1, scale)
        # What was left of a minor unit in the month before is not in this file.
        if abs(cost + booked) > Fraction(1, scale):
            wrong += 1
            print(f"{r['reference']}: {r['seconds']} node-s cost {float(cost):.2f}, charged are {-float(booked):.2f}")
        else:
            print(f"reserved {r['reference']}: {r['seconds']} node-s x {r['units']} x {r['unit_hour']}/h = {-float(booked):.2f}")
        used += 1
    if r["kind"] == "usage":
        of = r["allocation"]
        start = began.setdefault(of, micros(r["from"]))
        # Whole seconds count from the first moment, so that no boundary between two prices loses a part of one.
        seconds = (micros(r["to"]) - start) // 1_000_000 - (micros(r["from"]) - start) // 1_000_000
        second = Fraction(r["unit_hour"]) * int(r["paid_share"]) * int(r["units"]) / (10_000 * 3600)
        before = costs.get(of, Fraction(0))
        costs[of] = before + second * seconds
        cost = Fraction(costs[of] * scale // 1 - before * scale // 1, scale)
        # Parts of a second and of a minor unit that were left in the month before are not in this file.
        carried = start <= month or r["late"]
        if cost != -booked and not (carried and abs(cost + booked) <= second + Fraction(1, scale)):
            wrong += 1
            print(f"{of}: {seconds} s cost {float(cost):.2f}, charged are {-float(booked):.2f}")
        else:
            share = "" if r["paid_share"] == "10000" else f" x {int(r['paid_share']) / 100:g} %"
            print(f"{r['name'] or of}: {seconds} s x {r['units']} x {r['unit_hour']}/h{share} = {-float(booked):.2f}")
        used += 1
    total += booked
print(f"{used} lines of usage, {wrong} wrong")
sys.exit(wrong > 0)
