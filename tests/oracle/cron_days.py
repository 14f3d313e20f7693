"""cron_days.py DRIVER...: L, LW, 15W, 5L and TUE#2, alone and together, beside a search that tries each day by the definition, in
words, of each item; from a fixed seed. No program in Debian knows all of them. `latest` is compared with `next`, too."""
import calendar
import random
import sys
from datetime import date, datetime, timedelta

from asked import UTC, Tally, ask, instant, milliseconds

SEED = 7
COUNT = 6000
DAY = timedelta(days=1)


def month_length(day):
    return calendar.monthrange(day.year, day.month)[1]


def is_working(day):
    return day.isoweekday() <= 5


def nearest(target):
    """The working day nearest to a day of the same month: the one before it or the one after, else two days off."""
    for distance in (0, -1, 1, 2, -2):
        other = target + distance * DAY
        if other.month == target.month and is_working(other):
            return other


def matches_month_day(item, day):
    if item in ("*", "?"):
        return True
    if item == "L":
        return (day + DAY).day == 1
    if item == "LW":  # the last working day: there is none after it
        rest = [day.replace(day=d) for d in range(day.day + 1, month_length(day) + 1)]
        return is_working(day) and not any(is_working(other) for other in rest)
    if item.endswith("W"):
        target = int(item[:-1])
        return target <= month_length(day) and nearest(day.replace(day=target)) == day
    if item.startswith("*/"):
        return (day.day - 1) % int(item[2:]) == 0
    low, _, high = item.partition("-")
    return int(low) <= day.day <= int(high or low)


def matches_week_day(item, day):
    if item in ("*", "?"):
        return True
    if item.endswith("L"):  # a week later it is another month
        return day.isoweekday() % 7 == int(item[:-1]) % 7 and (day + 7 * DAY).month != day.month
    if "#" in item:
        weekday, n = item.split("#")
        same = [d for d in range(1, day.day + 1) if day.replace(day=d).isoweekday() % 7 == int(weekday) % 7]
        return day.isoweekday() % 7 == int(weekday) % 7 and len(same) == int(n)
    low, _, high = item.partition("-")
    return any(value % 7 == day.isoweekday() % 7 for value in range(int(low), int(high or low) + 1))


def matches(fields, day):
    days, month, week = fields
    if month != "*" and day.month not in [int(number) for number in month.split(",")]:
        return False
    by_month = any(matches_month_day(item, day) for item in days.split(","))
    by_week = any(matches_week_day(item, day) for item in week.split(","))
    if days[0] in "*?" or week[0] in "*?":
        return by_month and by_week
    return by_month or by_week


def random_fields(rng):
    month_items = ("L", "LW", f"{rng.randint(1, 31)}W", f"{rng.randint(1, 31)}W", str(rng.randint(1, 31)), f"{rng.randint(1, 9)}-{rng.randint(10, 31)}")
    week_items = (f"{rng.randint(0, 7)}L", f"{rng.randint(0, 7)}#{rng.randint(1, 5)}", str(rng.randint(0, 7)), f"{rng.randint(1, 3)}-{rng.randint(4, 7)}")
    days = rng.choice(("*", "?", f"*/{rng.randint(1, 31)}", ",".join(rng.sample(month_items, rng.randint(1, 3)))))
    week = rng.choice(("*", "?", ",".join(rng.sample(week_items, rng.randint(1, 2)))))
    month = rng.choice(("*", "*", str(rng.randint(1, 12)), f"{rng.randint(1, 6)},{rng.randint(7, 12)}"))
    return days, month, week


def main():
    rng, tally = random.Random(SEED), Tally()
    cases = []
    for _ in range(COUNT):
        after = datetime(1970, 1, 1, rng.randint(0, 23), tzinfo=UTC) + rng.randrange(130 * 365) * DAY
        cases.append((random_fields(rng), rng.randint(0, 23), after))
    expressions = [f"0 {hour} {' '.join(fields)}" for fields, hour, _ in cases]
    answers = ask(sys.argv[1:], [("next", "UTC", text, milliseconds(case[2]), 4) for text, case in zip(expressions, cases)])
    back = []
    for text, (fields, hour, after), answer in zip(expressions, cases, answers):
        wanted, day = [], after.date()
        last = date(after.year + 9, 1, 1)  # rarer ones: cron_croniter.py, and unit tests
        while len(wanted) < 4 and day < last:
            at = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
            if at > after and matches(fields, day):
                wanted.append(at)
            day += DAY
        seen = [instant(int(tick)) for tick in answer.split()] if not answer.startswith("!") else []
        tally.compare("days", f"\"{text}\" after {after}", wanted, [at for at in seen if at.date() < last])
        if len(wanted) == 4:
            back.append((text, after, wanted))
    answers = ask(sys.argv[1:], [("latest", "UTC", text, milliseconds(after), milliseconds(ticks[i]) + (0 if i % 2 else 86399999 if ticks[i] + DAY < ticks[i + 1] else 1))
                                 for text, after, ticks in back for i in range(3)])
    for place, answer in enumerate(answers):
        text, after, ticks = back[place // 3]
        tally.compare("latest", f"\"{text}\" after {after}", str(milliseconds(ticks[place % 3])), answer)
    tally.finish(days=COUNT, latest=10000)


main()
