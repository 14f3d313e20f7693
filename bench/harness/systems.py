"""The systems that are measured: how each is built and started, and which workloads it takes part in."""
import glob
import os
import shutil
import subprocess
from dataclasses import dataclass, field

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
OUT = os.path.join(ROOT, "build", "bench")
BENCH = os.path.join(ROOT, "bench")

SPIN_PERCENT = "55"  # of legwork-spin: what fits into 1.75 cores together with the pacing producer

WITHOUT_TIMERS = ("W1", "W1x", "W2", "W3", "W4", "W4i", "W5", "W6")

CFLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-DNDEBUG", "-Wall", "-Wextra", "-pthread"]
CXXFLAGS = ["-std=gnu++20", "-O2", "-DNDEBUG", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-pthread"]
# The parallel collector: measured, W1 of ForkJoinPool takes 70 ns with it and 110 or more with the default one.
JAVA = ["java", "-XX:+UseParallelGC", "-cp", os.path.join(OUT, "java"), "Bench"]


class BuildError(Exception):
    """A sentence on why a system cannot be measured."""


@dataclass(frozen=True)
class System:
    name: str
    build: object
    command: list
    workloads: tuple = ()  # of its suite; none are named: all
    env: dict = field(default_factory=dict)
    is_peer: bool = True

    def takes(self, workload):
        return not self.workloads or workload in self.workloads


def run_tool(command, **options):
    """Runs a compiler; its complaint becomes the reason."""
    if not shutil.which(command[0]):
        raise BuildError(f"{command[0]} is not installed")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise BuildError("it does not build:\n" + done.stdout.strip())
    return done.stdout


def package_flags(package):
    if package is None:
        return []
    try:
        return run_tool(["pkg-config", "--cflags", "--libs", package]).split()
    except BuildError as reason:
        raise BuildError(f"{package} is not installed") from reason


def c_program(name, source, package=None):
    def build():
        measure = os.path.join(BENCH, "common", "measure.c")
        run_tool(["cc", *CFLAGS, os.path.join(BENCH, source), measure, "-o", os.path.join(OUT, name),
                  *package_flags(package)])
    return build


def cxx_program(name, source, package):
    def build():
        measure = os.path.join(OUT, "measure.o")
        run_tool(["cc", *CFLAGS, "-c", os.path.join(BENCH, "common", "measure.c"), "-o", measure])
        run_tool(["c++", *CXXFLAGS, os.path.join(BENCH, source), measure, "-o", os.path.join(OUT, name),
                  *package_flags(package)])
    return build


def build_library(target, folder="core", options=()):
    """The library exactly as `make install` builds it, asserts included. Returns the folder that it is in."""
    folder = os.path.join(OUT, folder)
    run_tool(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", *options])
    try:
        run_tool(["ninja", "-C", folder, "-t", "query", target])
    except BuildError as reason:
        raise BuildError(f"CMake builds no library {target} here") from reason
    run_tool(["cmake", "--build", folder, "--target", target])
    return folder


def legwork_program(name, source, library="legwork-core", package=None):
    """On top of the static library."""
    def build():
        folder = build_library(f"{library}-static")
        run_tool(["cc", *CFLAGS, "-I", os.path.join(ROOT, "include"), "-I", os.path.join(ROOT, "src"),
                  os.path.join(BENCH, source), os.path.join(BENCH, "common", "measure.c"),
                  os.path.join(folder, f"lib{library}.a"), "-o", os.path.join(OUT, name), *package_flags(package)])
    return build


def build_beanstalkd():
    if not shutil.which("beanstalkd"):
        raise BuildError("beanstalkd is not installed")
    c_program("beanstalkd", "peers/beanstalkd.c")()


SERVER_SOURCES = ["bench/server.c", "bench/common/daemons.c", "bench/common/measure.c", "bench/peers/beanstalk_wire.c",
                  "src/cli/load.c", "src/cli/load_conn.c", "src/cli/load_http.c", "src/cli/latency.c"]


def build_server():
    """The server as it is installed, and the load, which is that of `legwork bench`."""
    folder = build_library("legwork-command", "server", ["-DLEGWORK_SERVER=ON"])
    run_tool(["cc", *CFLAGS, "-I", os.path.join(ROOT, "include"), "-I", os.path.join(ROOT, "src"),
              *(os.path.join(ROOT, source) for source in SERVER_SOURCES),
              os.path.join(folder, "liblegwork-server-parts.a"), os.path.join(folder, "liblegwork.a"),
              "-o", os.path.join(OUT, "load"), "-lm", *package_flags("libevent_core"), *package_flags("sqlite3")])


def build_server_peer():
    if not shutil.which("beanstalkd"):
        raise BuildError("beanstalkd is not installed")
    build_server()


def build_go():
    env = dict(os.environ, GOFLAGS="-mod=mod", GOPROXY="off", GOCACHE=os.path.join(OUT, "go-cache"))
    run_tool(["go", "build", "-o", os.path.join(OUT, "go"), "."], cwd=os.path.join(BENCH, "peers", "go"), env=env)


def build_java():
    sources = sorted(glob.glob(os.path.join(BENCH, "peers", "java", "*.java")))
    run_tool(["javac", "-d", os.path.join(OUT, "java"), *sources])


def program(name):
    return [os.path.join(OUT, name)]


build_cores = c_program("cores", "peers/cores.c")
build_pool = legwork_program("legwork", "legwork.c")

POOL_SYSTEMS = [
    System("legwork", build_pool, program("legwork"), is_peer=False),
    System("legwork-spin", build_pool, program("legwork"), ("W5",), {"LEGWORK_BENCH_SPIN": SPIN_PERCENT}, is_peer=False),
    System("go", build_go, program("go")),
    System("java-forkjoin", build_java, [*JAVA, "forkjoin"], WITHOUT_TIMERS),
    System("java-executor", build_java, [*JAVA, "executor"]),
    System("tbb", cxx_program("tbb", "peers/tbb.cpp", "tbb"), program("tbb"), WITHOUT_TIMERS),
    System("libuv", c_program("libuv", "peers/libuv.c", "libuv"), program("libuv")),
    System("glib", c_program("glib", "peers/glib.c", "glib-2.0"), program("glib")),
    System("mutex-ring", c_program("mutex-ring", "peers/mutex_ring.c"), program("mutex-ring"), WITHOUT_TIMERS),
    System("futex", c_program("futex", "peers/futex.c"), program("futex"), ("W4i",), is_peer=False),
    System("cores", build_cores, program("cores"), ("W3", "W4"), is_peer=False),
]

STREAMS = ("E1", "E1x4", "E2", "E3", "E4", "E5", "E6", "E7", "E8")

ENGINE_SYSTEMS = [
    System("legwork", legwork_program("legwork-engine", "engine.c"), program("legwork-engine"), (*STREAMS, "E9"),
           is_peer=False),
    System("go", build_go, program("go"), STREAMS),
    System("java", build_java, [*JAVA, "registry"], (*STREAMS, "E9")),
    System("mutex-registry", c_program("mutex-registry", "peers/registry.c"), program("mutex-registry"), ("E9",)),
    System("legwork-pool", build_pool, program("legwork"), ("W4i",), is_peer=False),
    System("cores", build_cores, program("cores"), ("E1", "E1x4"), is_peer=False),
]

build_fdatasync = c_program("fdatasync", "peers/fdatasync.c")

SQLITE_SYSTEMS = [
    System("legwork", legwork_program("legwork-sqlite", "sqlite.c", "legwork", "sqlite3"), program("legwork-sqlite"),
           is_peer=False),
    System("beanstalkd", build_beanstalkd, program("beanstalkd"), ("S1", "S2", "S4", "S5")),
    System("fdatasync", build_fdatasync, program("fdatasync"), ("S1", "S2", "S4"), is_peer=False),
]

SERVER_SYSTEMS = [
    System("legwork", build_server, program("load"),
           env={"BENCH_LEGWORK": os.path.join(OUT, "server", "legwork")}, is_peer=False),
    System("beanstalkd", build_server_peer, program("load"), ("H1", "H2", "H4", "H5"),
           {"BENCH_SERVER": "beanstalkd"}),
    System("fdatasync", build_fdatasync, program("fdatasync"), ("H4",), is_peer=False),
]

FLOW_SYSTEMS = [
    System("legwork", legwork_program("legwork-flow", "flow.c", "legwork", "sqlite3"), program("legwork-flow"),
           is_peer=False),
]

BATCH_SYSTEMS = [
    System("legwork", legwork_program("legwork-cron", "cron.c"), program("legwork-cron"), ("B1",), is_peer=False),
]
