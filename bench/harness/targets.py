"""The targets: what Legwork wants to reach beside its peers, as data."""
import statistics

FLAT = 1.5    # "flat": at most so much more at a million queued than at a thousand, whose queue fits the caches
FLAT_RETAINED = 1.25  # the same for a million retained
NO_CPU = 1e-3  # "no CPU": a millisecond per second, which is what the measuring itself may take
FLAT_WAITING = 1.2  # and for a million waiting in a file
EQUAL = 1.05  # "not worse": within what two runs of the same program differ
SIZES = ("1k", "10k", "100k", "1M")


PARKING = ("mutex-ring", "glib", "libuv", "mutex-registry", "java")  # peers whose idle workers sleep


class Figures:
    """Medians by label and system; raises KeyError for what was not measured."""

    def __init__(self, medians, peers):
        self.medians = medians
        self.peers = peers

    def get(self, label, system="legwork"):
        return self.medians[label][system][0]

    def parking_peers(self, label):
        return sorted((value, name) for name, (value, _) in self.medians[label].items() if name in PARKING)

    def best_peer(self, label):
        """(value, name) of the best peer."""
        return min((value, name) for name, (value, _) in self.medians[label].items() if name in self.peers)


# Each of these makes a function that gives (whether it is reached, value, unit, detail).

def against_peer(label, factor):
    def judge(f):
        best, name = f.best_peer(label)
        ratio = f.get(label) / best
        return ratio <= factor, ratio, "x", f"{f.get(label):.4g} against {best:.4g} of {name}"
    return judge


def near_best_parking(label, factor):
    def judge(f):
        own, (best, name) = f.get(label), f.parking_peers(label)[0]
        return own <= factor * best, own / best, "x", f"{own:.4g} against {best:.4g} of {name}"
    return judge


def near_median_parking(label, factor):
    def judge(f):
        own, median = f.get(label), statistics.median(value for value, _ in f.parking_peers(label))
        return own <= factor * median, own / median, "x", f"{own:.4g} against {median:.4g}"
    return judge


def on_a_busy_machine(label, p50, p99):
    """The rows of one workload: p50 and p99 are its metrics."""
    return [(f"{label} {p50} at most 1.5 times the best parking peer's", near_best_parking(f"{label}.{p50}", 1.5)),
            (f"{label} {p99} at most twice the parking peers' median", near_median_parking(f"{label}.{p99}", 2))]


def against_other_system(label, system, other, factor):
    def judge(f):
        own, theirs = f.get(label), f.get(other, system)
        return own <= factor * theirs, own / theirs, "x", f"{own:.4g} against {theirs:.4g}"
    return judge


def against_own(label, other, factor):
    def judge(f):
        ratio = f.get(label) / f.get(other)
        return ratio <= factor, ratio, "x", f"{f.get(label):.4g} against {f.get(other):.4g}"
    return judge


def against_system(label, system, factor):
    def judge(f):
        other = f.get(label, system)
        ratio = f.get(label) / other
        return ratio <= factor, ratio, "x", f"{f.get(label):.6g} against {other:.6g}"
    return judge


def times_as_fast(label, peer, factor):
    def judge(f):
        ratio = f.get(label, peer) / f.get(label)
        return ratio >= factor, ratio, "x", f"{f.get(label):.4g} against {f.get(label, peer):.4g}"
    return judge


def at_most(label, limit, unit, system="legwork"):
    def judge(f):
        return f.get(label, system) <= limit, f.get(label, system), unit, ""
    return judge


def at_least(label, limit, unit):
    def judge(f):
        return f.get(label) >= limit, f.get(label), unit, ""
    return judge


def flat(cost_at, factor, sizes=SIZES, unit="ns"):
    """cost_at(figures, "10k") is the cost of a task at that size."""
    def judge(f):
        costs = {size: cost_at(f, size) for size in sizes}
        ratio = max(costs.values()) / costs[sizes[0]]
        return ratio <= factor, ratio, "x", ", ".join(f"{size} {cost:.3g} {unit}" for size, cost in costs.items())
    return judge


def cost_queued(f, size):
    return f.get(f"W6.fill_{size}") + f.get(f"W6.drain_{size}")


def cost_retained(f, size):
    return f.get(f"E7.{size}")


def cost_waiting(f, size):
    return f.get(f"S6.{size}")


def cpu_waiting(f, size):
    return f.get(f"S6.cpu_{size}")


# (sentence, judge)
POOL_TARGETS = [
    ("W1 at most 0.6 of the best peer", against_peer("W1", 0.6)),
    ("W2 at most 0.6 of the best peer", against_peer("W2", 0.6)),
    ("W1x at most twice W1", against_own("W1x", "W1", 2)),
    ("W3 within 8 % of the ideal", at_most("W3.over_ideal", 1.08, "x")),
    ("W4 p50 at most the best peer's", against_peer("W4.p50", 1)),
    ("W4 p99 at most twice the parking peers' median", near_median_parking("W4.p99", 2)),
    ("W4i start not worse than a futex wake", against_system("W4i.start_p50", "futex", EQUAL)),
    ("W4i submit not worse than a futex wake", against_system("W4i.submit_p50", "futex", EQUAL)),
    ("W4i no CPU while idle", at_most("W4i.idle_cpu", NO_CPU, "cores")),
    ("W5 p50 at most 12 µs", at_most("W5.p50", 12000, "ns")),
    ("W5 p99 at most twice the parking peers' median", near_median_parking("W5.p99", 2)),
    ("W5 at most 1.35 cores", at_most("W5.cpu", 1.35, "cores")),
    ("W5 spinning: p50 at most 1.5 µs", at_most("W5.p50", 1500, "ns", "legwork-spin")),
    ("W5 spinning: at most 1.75 cores", at_most("W5.cpu", 1.75, "cores", "legwork-spin")),
    ("W6 at most 24 bytes a task", at_most("W6.bytes", 24, "bytes")),
    ("W6 cost flat from 1k to 1M queued", flat(cost_queued, FLAT)),
    ("W7 insert at most 60 ns", at_most("W7.insert", 60, "ns")),
    ("W7 cancel at most 60 ns", at_most("W7.cancel", 60, "ns")),
    ("W7 at most 48 bytes", at_most("W7.bytes", 48, "bytes")),
    *on_a_busy_machine("W4b", "p50", "p99"),
    *on_a_busy_machine("W4ib", "start_p50", "start_p99"),
    *on_a_busy_machine("W5b", "p50", "p99"),
]

ENGINE_TARGETS = [
    ("E1 at least 5 times as fast as go", times_as_fast("E1", "go", 5)),
    ("E1 at least 2 times as fast as java", times_as_fast("E1", "java", 2)),
    ("E1 at most 150 ns", at_most("E1", 150, "ns")),
    ("E1x4 at least 5 times as fast as go", times_as_fast("E1x4", "go", 5)),
    ("E1x4 at least 2 times as fast as java", times_as_fast("E1x4", "java", 2)),
    ("E1x4 at most 150 ns", at_most("E1x4", 150, "ns")),
    ("E4 at least 0.9 of the rate of E1", at_least("E4.rate_of_E1", 0.9, "x")),
    ("E5 at most 160 bytes a waiting task", at_most("E5.waiting", 160, "bytes")),
    ("E5 at most 192 bytes a finished task", at_most("E5.finished", 192, "bytes")),
    ("E7 cost flat from 1k to 1M retained", flat(cost_retained, FLAT_RETAINED)),
    ("E3 at most java's", against_system("E3", "java", 1)),
    ("E9 start p50 at most 1.3 times the pool's", against_other_system("E9.start_p50", "legwork-pool", "W4i.start_p50", 1.3)),
    *on_a_busy_machine("E9b", "start_p50", "start_p99"),
    *on_a_busy_machine("E9b", "paced_p50", "paced_p99"),
]

WAITING_SIZES = ("1k", "100k", "1M")

SQLITE_TARGETS = [
    ("S1 at least 25 times as fast as beanstalkd", times_as_fast("S1", "beanstalkd", 25)),
    ("S2 at least 0.7 of the rate of bare fdatasync", times_as_fast("S2", "fdatasync", 0.7)),
    ("S3 at least 100,000 tasks a second", at_most("S3", 10, "µs")),
    ("S3 at most 8 µs of CPU", at_most("S3.cpu", 8, "µs")),
    ("S4 p50 at most twice a bare fdatasync", against_system("S4.start_p50", "fdatasync", 2)),
    ("S4b p50 at most twice beanstalkd's", against_system("S4b.start_p50", "beanstalkd", 2)),
    ("S5 at most 160 bytes of memory a waiting task", at_most("S5.memory", 160, "bytes")),
    ("S5 at most 300 bytes of file a waiting task", at_most("S5.file", 300, "bytes")),
    ("S5 a million waiting tasks are open in 2 s", at_most("S5.open", 2000, "ms")),
    ("S6 time flat from 1k to 1M waiting", flat(cost_waiting, FLAT_WAITING, WAITING_SIZES, "µs")),
    ("S6 CPU flat from 1k to 1M waiting", flat(cpu_waiting, FLAT_WAITING, WAITING_SIZES, "µs")),
]

FLOW_TARGETS = [
    ("F1 a step at most 2 times a task with a successor", against_own("F1.step", "F1", 2)),
    ("F1 CPU of a step at most 2 times that of a task", against_own("F1.cpu_step", "F1.cpu_task", 2)),
]

BATCH_TARGETS = [
    ("B1 typical expressions at most 1 µs", at_most("B1.typical", 1000, "ns")),
    ("B1 the slowest lookup of any at most 50 µs", at_most("B1.worst_rare", 50000, "ns")),
]

SERVER_TARGETS = [
    ("H1 at least 0.6 of the rate of beanstalkd, both in memory", times_as_fast("H1", "beanstalkd", 0.6)),
    ("H2 at least 5 times as fast as beanstalkd, both on the disk", times_as_fast("H2", "beanstalkd", 5)),
    ("H3 at least 60,000 tasks a second", at_most("H3", 1e6 / 60000, "µs")),
    ("H4 p50 at most 1.5 times a bare fdatasync", against_system("H4.p50", "fdatasync", 1.5)),
    ("H4b p50 at most twice beanstalkd's", against_system("H4b.p50", "beanstalkd", 2)),
    ("H5 no CPU while idle", at_most("H5.cpu", NO_CPU, "cores")),
    ("H5 no wake-ups while idle", at_most("H5.wake_ups", 0, "per second")),
    ("H6 p99 with a crowd at most twice that of few", at_most("H6.crowd_over_few", 2, "x")),
]
