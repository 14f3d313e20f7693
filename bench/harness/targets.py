"""The targets: what Legwork wants to reach beside its peers, as data."""

FLAT = 1.5    # "flat": at most so much more at a million queued than at a thousand, whose queue fits the caches
NO_CPU = 1e-3  # "no CPU": a millisecond per second, which is what the measuring itself may take
EQUAL = 1.05  # "not worse": within what two runs of the same program differ


class Figures:
    """Medians by label and system; raises KeyError for what was not measured."""

    def __init__(self, medians, peers):
        self.medians = medians
        self.peers = peers

    def get(self, label, system="legwork"):
        return self.medians[label][system][0]

    def best_peer(self, label):
        """(value, name) of the best peer."""
        return min((value, name) for name, (value, _) in self.medians[label].items() if name in self.peers)


def against_peer(label, factor):
    def value_and_limit(f):
        best, name = f.best_peer(label)
        return f.get(label) / best, factor, "x", f"{f.get(label):.4g} against {best:.4g} of {name}"
    return value_and_limit


def against_own(label, other, factor):
    def value_and_limit(f):
        return f.get(label) / f.get(other), factor, "x", f"{f.get(label):.4g} against {f.get(other):.4g}"
    return value_and_limit


def against_futex(label):
    def value_and_limit(f):
        futex = f.get(label, "futex")
        return f.get(label) / futex, EQUAL, "x", f"{f.get(label):.6g} against {futex:.6g}"
    return value_and_limit


def at_most(label, limit, unit, system="legwork"):
    def value_and_limit(f):
        return f.get(label, system), limit, unit, ""
    return value_and_limit


def flat(f):
    costs = {depth: f.get(f"W6.fill_{depth}") + f.get(f"W6.drain_{depth}") for depth in ("1k", "10k", "100k", "1M")}
    detail = ", ".join(f"{depth} {ns:.3g} ns" for depth, ns in costs.items())
    return max(costs.values()) / costs["1k"], FLAT, "x", detail


# (sentence, function that gives value, limit, unit, detail)
TARGETS = [
    ("W1 at most 0.6 of the best peer", against_peer("W1", 0.6)),
    ("W2 at most 0.6 of the best peer", against_peer("W2", 0.6)),
    ("W1x at most twice W1", against_own("W1x", "W1", 2)),
    ("W3 within 8 % of the ideal", at_most("W3.over_ideal", 1.08, "x")),
    ("W4 p50 at most the best peer's", against_peer("W4.p50", 1)),
    ("W4 p99 at most 20 µs", at_most("W4.p99", 20000, "ns")),
    ("W4i start not worse than a futex wake", against_futex("W4i.start_p50")),
    ("W4i submit not worse than a futex wake", against_futex("W4i.submit_p50")),
    ("W4i no CPU while idle", at_most("W4i.idle_cpu", NO_CPU, "cores")),
    ("W5 p50 at most 12 µs", at_most("W5.p50", 12000, "ns")),
    ("W5 at most 1.35 cores", at_most("W5.cpu", 1.35, "cores")),
    ("W5 spinning: p50 at most 1.5 µs", at_most("W5.p50", 1500, "ns", "legwork-spin")),
    ("W5 spinning: at most 1.75 cores", at_most("W5.cpu", 1.75, "cores", "legwork-spin")),
    ("W6 at most 24 bytes a task", at_most("W6.bytes", 24, "bytes")),
    ("W6 cost flat from 1k to 1M queued", flat),
    ("W7 insert at most 60 ns", at_most("W7.insert", 60, "ns")),
    ("W7 cancel at most 60 ns", at_most("W7.cancel", 60, "ns")),
    ("W7 at most 48 bytes", at_most("W7.bytes", 48, "bytes")),
]
