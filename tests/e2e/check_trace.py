"""Checks a trace.json: check_trace.py TRACE RESULTS.h5 [CLOCK]

Every arrow that begins ends, with both ends in slices; slices of a row do not
overlap; a worker's waits add up to what results.h5 has as exposed time. Perfetto
orders events by time, equal ones as in the file, and gives an arrow's end to the
slice of its row that began last: that must be the one in which it lies.
"""
import json
import sys
from collections import defaultdict

import h5py
import numpy as np

trace_path, results_path = sys.argv[1:3]
wrong = []


def ns(us):
    return round(us * 1000)


with open(trace_path, encoding="utf-8") as file:
    trace = json.load(file)
rows, waits, computed = defaultdict(list), defaultdict(int), defaultdict(int)
ends = {"s": {}, "f": {}}
names = {}
for event in trace["traceEvents"]:
    place = event["pid"], event.get("tid")
    if event["ph"] == "X":
        begin = ns(event["ts"])
        rows[place].append((begin, begin + ns(event["dur"])))
        if event["tid"] == 100 * event["pid"] + 2:  # the row of waits
            waits[event["pid"]] += ns(event["dur"])
        if event["name"] in ("forward", "backward"):
            computed[event["pid"]] += ns(event["dur"])
    elif event["ph"] in ends:
        if event["id"] in ends[event["ph"]]:
            wrong.append(f"arrow {event['id']} twice")
        ends[event["ph"]][event["id"]] = place, ns(event["ts"])
    elif event["name"] == "thread_name":
        name = event["args"]["name"]
        if names.setdefault(place, name) != name:
            wrong.append(f"row {place} has two names")
for place, slices in rows.items():
    slices.sort()
    if place not in names:
        wrong.append(f"row {place} has no name")
    for (_, end), (begin, _) in zip(slices, slices[1:]):
        if begin < end:
            wrong.append(f"row {place}: a slice from {begin}, another until {end}")
            break
if ends["s"].keys() != ends["f"].keys():
    wrong.append(f"{len(ends['s'])} arrows begin, {len(ends['f'])} end")
for identity, (place, at) in ends["s"].items():
    other, later = ends["f"].get(identity, (None, at))
    # A server on a machine of its own is shown with the worker of its number.
    is_of_server = "own machine" in names.get(place, "") + names.get(other, "")
    if other is not None and other[0] == place[0] and not is_of_server:
        wrong.append(f"arrow {identity} from worker {place[0]} to itself")
    if later < at - ns(trace["otherData"].get("clock_error_us", 0)):
        wrong.append(f"arrow {identity} ends before it begins")
for end in ends.values():
    for identity, (place, at) in end.items():
        if not any(b <= at <= e for b, e in rows[place]):
            wrong.append(f"arrow {identity} is at no slice")
            break
began = {}
for event in sorted(trace["traceEvents"], key=lambda event: event.get("ts", 0)):
    place = event["pid"], event.get("tid")
    if event["ph"] == "X":
        began[place] = ns(event["ts"]), ns(event["ts"]) + ns(event["dur"])
    elif event["ph"] in ends:
        begin, end = began.get(place, (0, -1))
        if not begin <= ns(event["ts"]) <= end:
            wrong.append(f"arrow {event['id']} would be drawn at another slice")
with h5py.File(results_path) as file:
    if "comm" in file:
        exposed = file["comm/exposed_s"][...].sum(axis=0)
        compute = file["comm/compute_s"][...].sum(axis=0)
        if file["comm/bytes_sent"][...].sum() > 0 and not ends["s"]:
            wrong.append("messages were sent, and there is no arrow")
    else:
        exposed = file["workers/exposed_s"][...]
        compute = file["workers/compute_s"][...]
found = np.array([waits[worker] / 1e9 for worker in range(len(exposed))])
if not np.allclose(found, exposed, rtol=1e-5, atol=1e-5):
    wrong.append(f"waits {found}, exposed {exposed}")
if trace["otherData"]["clock"] == "virtual":
    found = np.array([computed[w] / 1e9 for w in range(len(compute))])
    if not np.allclose(found, compute, rtol=1e-5, atol=1e-6):
        wrong.append(f"forward and backward {found}, compute {compute}")
print(f"{trace_path}: {sum(map(len, rows.values()))} slices in {len(rows)} rows, "
      f"{len(ends['s'])} arrows, {len(wrong)} mistakes")
print("\n".join(wrong[:10]))
sys.exit(bool(wrong))
