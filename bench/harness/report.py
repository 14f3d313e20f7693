"""Prints the figures: lines for programs, then a table and the targets for people."""
from targets import Figures


def print_lines(medians):
    for label, by_system in medians.items():
        for name, (value, unit) in by_system.items():
            print(f"{label}\t{name}\t{value:.6g}\t{unit}")


def short(value):
    """Three or four digits are all that a benchmark knows."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4f}" if value < 0.01 else f"{value:.3g}"


def ratio_to_best(label, by_system, peers, no_contest):
    rivals = [(value, name) for name, (value, _) in by_system.items() if name in peers]
    if label in no_contest or not rivals or "legwork" not in by_system:
        return ""
    best, name = min(rivals)
    return f"{by_system['legwork'][0] / best:.2f} of {name}" if best > 0 else ""


def print_table(medians, systems, no_contest):
    names = [s.name for s in systems if any(s.name in by_system for by_system in medians.values())]
    peers = {s.name for s in systems if s.is_peer}
    rows = [["", "", *names, "legwork / best peer"]]
    for label, by_system in medians.items():
        unit = next(iter(by_system.values()))[1]
        cells = [short(by_system[name][0]) if name in by_system else "-" for name in names]
        rows.append([label, unit, *cells, ratio_to_best(label, by_system, peers, no_contest)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        left = "  ".join(cell.ljust(width) for cell, width in zip(row[:2], widths))
        right = "  ".join(cell.rjust(width) for cell, width in zip(row[2:-1], widths[2:]))
        print(f"{left}  {right}  {row[-1]}".rstrip())


def print_targets(medians, systems, targets):
    figures = Figures(medians, {s.name for s in systems if s.is_peer})
    for sentence, judge in targets:
        try:
            is_reached, value, unit, detail = judge(figures)
        except (KeyError, ValueError):
            print(f"  not measured  {sentence}")
            continue
        verdict = "reached" if is_reached else "NOT REACHED"
        print(f"  {verdict:12}  {sentence}: {short(value)} {unit}" + (f" ({detail})" if detail else ""))


def print_all(suite, medians, systems, machine):
    print_lines(medians)
    print(f"\n{suite.name}: medians; less is better. {machine}\n")
    print_table(medians, systems, suite.no_contest)
    if any("legwork" in by_system for by_system in medians.values()):
        print("\nTargets\n")
        print_targets(medians, systems, suite.targets)
