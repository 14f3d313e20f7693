"""The suites: which workloads are measured on which systems, and what is to be reached."""
from dataclasses import dataclass

from systems import BATCH_SYSTEMS, ENGINE_SYSTEMS, FLOW_SYSTEMS, POOL_SYSTEMS, SERVER_SYSTEMS, SQLITE_SYSTEMS
from targets import BATCH_TARGETS, ENGINE_TARGETS, FLOW_TARGETS, POOL_TARGETS, SERVER_TARGETS, SQLITE_TARGETS


@dataclass(frozen=True)
class Suite:
    name: str
    workloads: tuple
    systems: list
    targets: list
    no_contest: tuple  # labels that have no best peer


SUITES = [
    Suite("pool", ("W1", "W1x", "W2", "W3", "W4", "W4i", "W5", "W6", "W7", "W4b", "W4ib", "W5b", "W4q", "W4iq",
                   "W5q"), POOL_SYSTEMS, POOL_TARGETS,
          ("W3.ideal",)),  # it belongs to the machine
    Suite("engine", ("E1", "E1x4", "E2", "E3", "E4", "E5", "E6", "E7", "E8", "E9", "E9b", "W4i"), ENGINE_SYSTEMS, ENGINE_TARGETS,
          ("E4.rate_of_E1",)),  # each against itself, and more is better
    Suite("sqlite", ("S1", "S2", "S3", "S4", "S5", "S6", "S4b"), SQLITE_SYSTEMS, SQLITE_TARGETS, ()),
    Suite("flow", ("F1", "F2"), FLOW_SYSTEMS, FLOW_TARGETS, ()),
    Suite("batch", ("B1",), BATCH_SYSTEMS, BATCH_TARGETS, ()),
    Suite("server", ("H1", "H2", "H3", "H4", "H5", "H6", "H4b"), SERVER_SYSTEMS, SERVER_TARGETS, ()),
]
