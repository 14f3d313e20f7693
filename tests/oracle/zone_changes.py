"""zone_changes.py DRIVER...: all clock changes of 25 zones from 1990 to 2045, and local times in all zones of the system, beside
Python's zoneinfo, which reads the same files by code of its own."""
import random
import sys
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from asked import UTC, Tally, ask, instant, milliseconds

ZONES = ("Europe/Berlin", "Europe/London", "Europe/Dublin", "Europe/Moscow", "Europe/Istanbul", "America/New_York",
         "America/Los_Angeles", "America/Sao_Paulo", "America/Havana", "America/Caracas", "America/St_Johns", "America/Godthab",
         "Africa/Cairo", "Africa/Casablanca", "Africa/Windhoek", "Asia/Tehran", "Asia/Gaza", "Asia/Kolkata", "Asia/Kathmandu",
         "Asia/Pyongyang", "Asia/Jerusalem", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Chatham", "Antarctica/Troll")
FROM, UNTIL = datetime(1990, 1, 1, tzinfo=UTC), datetime(2045, 1, 1, tzinfo=UTC)
STEP = timedelta(hours=6)  # no zone has changed its clocks twice in so short a time


def changes(zone):
    at, found = FROM, []
    offset = at.astimezone(zone).utcoffset()
    while at < UNTIL:
        then = (at + STEP).astimezone(zone).utcoffset()
        if then != offset:
            low, high = at, at + STEP
            while high - low > timedelta(seconds=1):
                middle = low + timedelta(seconds=(high - low) // timedelta(seconds=2))
                if middle.astimezone(zone).utcoffset() == offset:
                    low = middle
                else:
                    high = middle
            found.append(f"{milliseconds(high)}:{int(offset.total_seconds())}:{int(then.total_seconds())}")
            offset = then
        at += STEP
    return [change for change in found if int(change.split(":")[0]) < milliseconds(UNTIL)]


def shown(zone, at):
    local = at.astimezone(zone)
    seconds = int(local.utcoffset().total_seconds())
    size = abs(seconds)
    offset = f"{'-' if seconds < 0 else '+'}{size // 3600:02}:{size // 60 % 60:02}" + (f":{size % 60:02}" if size % 60 else "")
    name = "" if local.tzname()[0] in "+-" else f" {local.tzname()}"
    return f"{local:%Y-%m-%d %H:%M:%S} {offset}{name}"


def main():
    tally, rng = Tally(), random.Random(7)
    answers = ask(sys.argv[1:], [("changes", name, milliseconds(FROM) - 1, milliseconds(UNTIL)) for name in ZONES])
    for name, answer in zip(ZONES, answers):
        wanted = changes(ZoneInfo(name))
        seen = answer.split()
        for i in range(max(len(wanted), len(seen))):
            tally.compare("clock changes", name, wanted[i] if i < len(wanted) else None, seen[i] if i < len(seen) else None)
    questions = []
    for name in sorted(available_timezones() - {"localtime"}):
        for _ in range(25):
            questions.append((name, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randrange(150 * 365 * 86400))))
    answers = ask(sys.argv[1:], [("local", name, milliseconds(at)) for name, at in questions])
    for (name, at), answer in zip(questions, answers):
        tally.compare("local times", f"{name} at {at}", shown(ZoneInfo(name), at), answer)
    tally.finish(**{"clock changes": 1500, "local times": 10000})


main()
