"""The command line of bench/run: set up, build, measure, report."""
import argparse
import os
import platform
import subprocess
import sys

import measure
import report
from suites import SUITES
from systems import OUT, ROOT, BuildError

ROUNDS_DEFAULT = 5


def parse(argv, usage):
    parser = argparse.ArgumentParser(prog="bench/run", description=usage,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="?", choices=[s.name for s in SUITES], help="all, if none is named")
    parser.add_argument("--rounds", type=int, default=ROUNDS_DEFAULT)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], metavar="WORKLOADS")
    parser.add_argument("--systems", type=lambda text: text.split(","), default=[])
    parser.add_argument("--no-setup", action="store_true", help="use what is installed")
    args = parser.parse_args(argv)
    args.suites = [s for s in SUITES if args.suite in (None, s.name)]
    if args.rounds < 1:
        parser.error(f"--rounds {args.rounds}: at least 1")
    refuse_unknown(parser, args.only, [w for s in args.suites for w in s.workloads])
    refuse_unknown(parser, args.systems, [system.name for s in args.suites for system in s.systems])
    return args


def refuse_unknown(parser, given, known):
    for name in given:
        if name not in known:
            parser.error(f"{name} is not known; there are {', '.join(dict.fromkeys(known))}")


def install_peers():
    """What cannot be installed is left out later, where it is missed."""
    setup = os.path.join(ROOT, "tools", "setup")
    if not os.access(setup, os.X_OK):
        return
    if subprocess.run([setup, "bench"], stdout=sys.stderr, check=False).returncode != 0:
        print("tools/setup bench failed; going on with what is installed", file=sys.stderr)


def build(systems, outcomes, crashes):
    """Returns the systems that could be built; each program is built once. Peers may be missing, Legwork may not."""
    os.makedirs(OUT, exist_ok=True)
    built = []
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


def run_suite(suite, args, outcomes, crashes):
    workloads = [w for w in suite.workloads if not args.only or w in args.only]
    wanted = [s for s in suite.systems if not args.systems or s.name in args.systems]
    if not workloads or not wanted:
        return
    systems = build(wanted, outcomes, crashes)
    machine = describe_machine(args.rounds)
    medians = measure.run_all(systems, workloads, args.rounds, crashes)
    report.print_all(suite, medians, systems, machine)


def main(argv, usage):
    args = parse(argv, usage)
    if not args.no_setup:
        install_peers()
    outcomes, crashes = {}, []
    for suite in args.suites:
        run_suite(suite, args, outcomes, crashes)
    for crash in crashes:
        print(f"failed: {crash}", file=sys.stderr)
    return 1 if crashes else 0
