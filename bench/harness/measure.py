"""Runs the programs in turns and collects what they print."""
import os
import statistics
import subprocess
import sys
import tempfile

import conditions
from systems import OUT

TIMEOUT_S = 120


class Crash(Exception):
    """A program ended with an error, hung, or printed what nobody understands."""


def label_of(workload, metric):
    """The main figure of a workload goes by its name alone."""
    return workload if metric == "task" else f"{workload}.{metric}"


def run_once(system, workload):
    """Returns [(label, value, unit)]. The program runs in a folder of its own, on one disk with all others."""
    base, beside = conditions.split(workload)
    with tempfile.TemporaryDirectory(prefix="run-", dir=OUT) as folder, beside([*system.command, base]) as command:
        try:
            done = subprocess.run(command, env=dict(os.environ, **system.env), cwd=folder,
                                  capture_output=True, text=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired as reason:
            raise Crash(f"took longer than {TIMEOUT_S} s") from reason
    if done.returncode != 0:
        raise Crash(f"ended with {done.returncode}: {done.stderr.strip()}")
    figures = []
    for line in done.stdout.splitlines():
        _, metric, value, unit = line.split("\t")
        figures.append((label_of(workload, metric), float(value), unit))
    if not figures:
        raise Crash("printed nothing")
    return figures


def run_rounds(systems, workload, rounds, figures, crashes):
    """Each system once a round, each round beginning with another one."""
    able = [s for s in systems if s.takes(conditions.split(workload)[0])]
    for number in range(rounds):
        shift = number % len(able) if able else 0
        for system in able[shift:] + able[:shift]:
            try:
                for label, value, unit in run_once(system, workload):
                    figures.setdefault(label, {}).setdefault(system.name, (unit, []))[1].append(value)
            except conditions.Unavailable as reason:
                print(f"skipped {workload}: {reason}", file=sys.stderr)
                return
            except (Crash, ValueError) as reason:
                crashes.append(f"{workload} {system.name}: {reason}")
                print(f"CRASHED {crashes[-1]}", file=sys.stderr)
        print(f"{workload}: round {number + 1} of {rounds}", file=sys.stderr)


def run_all(systems, workloads, rounds, crashes):
    """Returns {label: {system: (median, unit)}}."""
    figures = {}
    for workload in workloads:
        run_rounds(systems, workload, rounds, figures, crashes)
    return {label: {name: (statistics.median(values), unit) for name, (unit, values) in by_system.items()}
            for label, by_system in figures.items()}
