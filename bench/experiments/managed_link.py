#!/usr/bin/python3
"""Managed communication on a real link that is as fast as the budget, and then only half as fast.

Servers on one host, workers on another: network namespaces (test/hosts/netns), whose cable carries
what `tc tbf` lets pass. The workers always have something to send. Needs root.
"""

import json
import subprocess
import sys
import tempfile
import time

from common import ROOT, RUBATO, parse

NETNS = ROOT / "test/hosts/netns"
LOAD = ROOT / "build/test/integration/early_load"
SKIP = 77
PLACE = "10.77.0.10:7000"
BUDGET = 4_000_000  # bytes per second
RATE, HALF = "32mbit", "16mbit"
SLOW_AT, WELL_AT, END = 6.0, 10.0, 16.0
STEP = 0.1
WINDOW = 0.5


class Link:
    """Two hosts and the cable of the second."""

    def __init__(self, folder):
        self.folder = folder
        done = subprocess.run([NETNS, "up", folder, RATE], stderr=subprocess.PIPE, text=True,
                              check=False)
        if done.returncode == SKIP:
            sys.exit(done.stderr.strip())
        assert done.returncode == 0, done.stderr
        self.processes = []

    def start(self, host, *words):
        self.processes.append(subprocess.Popen(
            [NETNS, "exec", self.folder, host, *map(str, words)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True))
        return self.processes[-1]

    def rate(self, rate):
        subprocess.run([NETNS, "rate", self.folder, "rbt1", rate], check=True)

    def sent(self):
        text = subprocess.run([NETNS, "sent", self.folder, "rbt1"], stdout=subprocess.PIPE,
                              check=True, text=True).stdout
        return [int(word) for word in text.split()]

    def close(self):
        for process in self.processes:
            process.kill()
        subprocess.run([NETNS, "down", self.folder], check=True)


def start_job(link, seconds):
    coordinator = link.start("rbt0", RUBATO, "coordinator", "--listen", PLACE, "--servers", 2,
                             "--once")
    while "listening on" not in coordinator.stderr.readline():
        assert coordinator.poll() is None
    for i in range(2):
        link.start("rbt0", RUBATO, "server", "--coordinator", PLACE, "--listen", "10.77.0.10:0",
                   "--index", i)
    return link.start("rbt1", RUBATO, "worker", "--coordinator", PLACE, "--workers", 2, "--threads",
                      2, "--", LOAD, seconds, BUDGET)


def measure(link, changes, seconds):
    """Runs the job and looks at the cable: [(seconds, bytes up, bytes down)], and its figures."""
    job = start_job(link, seconds)
    before = link.sent()
    while link.sent()[0] - before[0] < BUDGET / 10:  # it has begun
        assert job.poll() is None, job.stderr.read()
        time.sleep(STEP)
    began = time.monotonic()
    seen, left = [], list(changes)
    while time.monotonic() - began < seconds - 1:
        if left and time.monotonic() - began >= left[0][0]:
            link.rate(left.pop(0)[1])
        seen.append((time.monotonic() - began, *link.sent()))
        time.sleep(STEP)
    out, messages = job.communicate(timeout=60)
    assert job.returncode == 0, messages
    return seen, json.loads(out)


def speed(seen, first, last, way):
    """Bytes per second between two moments; way 1: from the workers, 2: to them."""
    part = [row for row in seen if first <= row[0] <= last]
    return (part[-1][way] - part[0][way]) / (part[-1][0] - part[0][0])


def recovery(seen, usual):
    """Seconds after the end of the slow time until a window is as full as before."""
    at = WELL_AT
    while at + WINDOW < seen[-1][0]:
        if speed(seen, at, at + WINDOW, 1) >= 0.95 * usual:
            return at + WINDOW - WELL_AT
        at += STEP
    return float("inf")


def claim(text, holds):
    print(("holds      " if holds else "DOES NOT   ") + text)
    return holds


def report(seen, figures):
    usual = speed(seen, 1, SLOW_AT, 1)
    slow = speed(seen, SLOW_AT + 1, WELL_AT, 1)
    again = recovery(seen, usual)
    for name, first, last in (("as fast as the budget", 1, SLOW_AT), ("half as fast", SLOW_AT + 1,
                                                                       WELL_AT),
                              ("again", WELL_AT + 2, seen[-1][0])):
        print(f"{name:22} up {speed(seen, first, last, 1) / 1e6:.2f} MB/s, "
              f"down {speed(seen, first, last, 2) / 1e6:.2f} MB/s")
    print(json.dumps(figures))
    return all([
        claim(f"nothing is lost: {figures['made']} changes made, {figures['arrived']} arrived",
              figures["made"] == figures["arrived"]),
        claim(f"the budget is used: {usual / BUDGET:.1%}, with the network's own bytes",
              usual >= 0.95 * BUDGET),
        claim(f"the slow link is used: {2 * slow / BUDGET:.1%} of it", slow >= 0.85 * BUDGET / 2),
        claim(f"it is noticed: {figures['early_pauses']} pauses", figures["early_pauses"] > 0),
        claim(f"as full as before {again:.1f} s after it is well again", again <= 2)])


def main():
    options = parse(__doc__)
    if options.quick:
        sys.exit("it takes half a minute as it is")
    with tempfile.TemporaryDirectory() as folder:
        link = Link(folder)
        try:
            seen, figures = measure(link, [(SLOW_AT, HALF), (WELL_AT, RATE)], END)
        finally:
            link.close()
    sys.exit(0 if report(seen, figures) else 1)


main()
