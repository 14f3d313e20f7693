"""The command line of bench/run: set up, build, measure, report."""
import argparse
import os
import platform
import subprocess
import sys

import measure
import report
from systems import OUT, ROOT, SYSTEMS, WORKLOADS, BuildError

ROUNDS_DEFAULT = 5


def parse(argv, usage):
    parser = argparse.ArgumentParser(prog="bench/run", description=usage,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="?", choices=["pool"], default="pool")
    parser.add_argument("--rounds", type=int, default=ROUNDS_DEFAULT)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(WORKLOADS))
    parser.add_argument("--systems", type=lambda text: text.split(","), default=[s.name for s in SYSTEMS])
    parser.add_argument("--no-setup", action="store_true", help="use what is installed")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error(f"--rounds {args.rounds}: at least 1")
    for given, known in ((args.only, WORKLOADS), (args.systems, [s.name for s in SYSTEMS])):
        for name in given:
            if name not in known:
                parser.error(f"{name} is not known; there are {', '.join(known)}")
    return args


def install_peers():
    """What cannot be installed is left out later, where it is missed."""
    setup = os.path.join(ROOT, "tools", "setup")
    if not os.access(setup, os.X_OK):
        return
    if subprocess.run([setup, "bench"], stdout=sys.stderr, check=False).returncode != 0:
        print("tools/setup bench failed; going on with what is installed", file=sys.stderr)


def build(systems, crashes):
    """Returns the systems that could be built; each program is built once. Peers may be missing, Legwork may not."""
    os.makedirs(OUT, exist_ok=True)
    outcomes, built = {}, []
    for system in systems:
        if system.build not in outcomes:
            try:
                system.build()
                outcomes[system.build] = None
            except BuildError as reason:
                outcomes[system.build] = reason
        if outcomes[system.build] is None:
            built.append(system)
            continue
        print(f"skipped {system.name}: {outcomes[system.build]}", file=sys.stderr)
        if not system.is_peer:
            crashes.append(f"{system.name} could not be built")
    return built


def describe_machine(rounds):
    load = os.getloadavg()[0]
    system = f"{platform.system()} {platform.release()}"
    return f"{rounds} rounds on {os.cpu_count()} cores, {system}, load before {load:.2f}."


def main(argv, usage):
    args = parse(argv, usage)
    if not args.no_setup:
        install_peers()
    crashes = []
    systems = build([s for s in SYSTEMS if s.name in args.systems], crashes)
    machine = describe_machine(args.rounds)
    medians = measure.run_all(systems, [w for w in WORKLOADS if w in args.only], args.rounds, crashes)
    report.print_all(medians, systems, machine)
    for crash in crashes:
        print(f"failed: {crash}", file=sys.stderr)
    return 1 if crashes else 0
