"""What a workload runs beside: nothing, busy neighbours (W4b), or a quota of CPU time (W4q).

The programs know nothing of it: W4b is the program's W4, started while as many endless loops as there are cores run."""
import contextlib
import os
import subprocess

HOG = ["sh", "-c", "while :; do :; done"]
QUOTA_CORES = 0.5
PERIOD_US = 100000


class Unavailable(Exception):
    """A sentence on why a condition cannot be had on this machine."""


@contextlib.contextmanager
def beside_hogs(command):
    hogs = [subprocess.Popen(HOG) for _ in range(os.cpu_count())]
    try:
        yield command
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def make_group():
    """Returns the folder of a control group with the quota. Version 1 has a folder for the processor, version 2 has one
    for all, in which it has to be turned on."""
    old, new = "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"
    is_old = os.path.isdir(old)
    group = os.path.join(old if is_old else new, f"legwork-bench-{os.getpid()}")
    quota_us = int(QUOTA_CORES * PERIOD_US)
    try:
        if not is_old:
            write(os.path.join(new, "cgroup.subtree_control"), "+cpu")
        os.mkdir(group)
        if is_old:
            write(os.path.join(group, "cpu.cfs_period_us"), str(PERIOD_US))
            write(os.path.join(group, "cpu.cfs_quota_us"), str(quota_us))
        else:
            write(os.path.join(group, "cpu.max"), f"{quota_us} {PERIOD_US}")
    except OSError as reason:
        with contextlib.suppress(OSError):
            os.rmdir(group)
        raise Unavailable(f"no control group with a quota can be made here: {reason}") from reason
    return group


@contextlib.contextmanager
def under_quota(command):
    group = make_group()
    try:
        yield ["sh", "-c", f'echo $$ >"{group}/cgroup.procs" && exec "$@"', "sh", *command]
    finally:
        os.rmdir(group)


CONDITIONS = {"b": beside_hogs, "q": under_quota}


def split(workload):
    """The program's name of a workload, and what it runs beside: W4ib is W4i beside hogs."""
    condition = CONDITIONS.get(workload[-1])
    return (workload[:-1], condition) if condition else (workload, contextlib.nullcontext)
