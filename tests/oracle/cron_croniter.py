"""cron_croniter.py DRIVER...: cron expressions beside Debian's croniter, and zones beside Python's zoneinfo; from a fixed seed.

croniter says which local times match; zoneinfo says which instants these are. What differs on purpose:
  - Clock changes. croniter shifts what falls into a gap or an overlap, in ways that depend on where it started. Here it is done as
    in Vixie cron: local times come from croniter without a zone, and `instants` below says what becomes of them. Where there is
    no clock change near, croniter with the zone must give the same.
  - Seconds come first here and last in croniter: the field is moved.
  - croniter joins the day fields by "and" only if one of them is all days, so `*/2` and `MON` are "or" there. Here, as in Vixie
    cron, a field that begins with * asks for "and": croniter is told day_or=False then.
  - `?` is `*` to croniter. L of the weekdays is `L5` there, `5L` here. W, LW: it knows neither (cron_days.py).
  - The last day together with other days of the month (`1,L`) is wrong in croniter 1.3.5, which sorts the letter behind all
    numbers and then stops at 31 only: not asked.
  - Days 29 to 31 beside days 1 to 3: in a month that ends before them croniter counts on into the next one and passes its first
    days. Not asked.
  - Where one of the day fields alone never comes (`30 2 MON`), croniter gives up. Not asked.
  - All weekdays in a list (`SUN-SAT`) are `*` to croniter; here `*` is what begins so. With 6 fields croniter forgets that 7 is
    Sunday. Neither is asked.
  - An n-th weekday beside a plain one (`MON,TUE#2`), and n-th weekdays together with days of the month, are refused or mixed up
    by it: not asked.
"""
import random
import sys
import warnings
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from croniter import croniter
from croniter.croniter import CroniterError

from asked import UTC, Tally, ask, instant, milliseconds

SEED = 20260301
COUNT = 27000
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe",
         "Pacific/Apia", "America/St_Johns", "Africa/Casablanca", "Europe/Dublin", "Asia/Tehran", "Pacific/Chatham",
         "America/Havana", "Africa/Cairo", "Asia/Gaza", "Antarctica/Troll")
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
DAYS = "SUN MON TUE WED THU FRI SAT".split()
NIGHT = ("2", "1", "0", "3", "23,0", "1-3", "0-4", "*/2", "*", "1,2", "0-23", "2,3,4")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


# ---- random expressions ------------------------------------------------------------------------

def item(rng, low, high, names=None):
    def value(number):
        return names[number - low] if names and number - low < len(names) and rng.random() < 0.3 else str(number)

    kind = rng.random()
    first = rng.randint(low, high)
    if kind < 0.45:
        return value(first)
    if kind < 0.7:
        return f"{value(first)}-{value(rng.randint(first, high))}"
    if kind < 0.85:
        last = rng.randint(first, high)
        return f"{first}-{last}/{rng.randint(1, max(1, high - low))}"
    return f"{first}/{rng.randint(1, max(1, high - low))}"


def field(rng, low, high, names=None, star=0.4):
    kind = rng.random()
    if kind < star:
        return "*"
    if kind < star + 0.15:
        return f"*/{rng.randint(1, max(1, (high - low) // 2))}"
    return ",".join(item(rng, low, high, names) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def weekday(rng):
    kind = rng.random()
    if kind < 0.1:
        return f"{rng.randint(0, 6)}#{rng.randint(1, 5)}", True
    if kind < 0.2:
        return f"{rng.randint(0, 6)}L", True
    return field(rng, 0, 6, DAYS, star=0.5), False


def expression(rng):
    """The fields, seconds first, or without seconds."""
    week, is_nth = weekday(rng)
    day = "*" if is_nth else "L" if rng.random() < 0.05 else field(rng, 1, 31, star=0.5)
    if day == "*" and week != "*" and rng.random() < 0.2:
        day = "?"
    fields = [field(rng, 0, 59, star=0.2), field(rng, 0, 23), day, field(rng, 1, 12, MONTHS, star=0.6), week]
    if rng.random() < 0.2:
        fields.insert(0, field(rng, 0, 59, star=0.2))
    return fields


def for_croniter(fields):
    """The same for croniter, and how it has to join the day fields."""
    has_seconds = len(fields) == 6
    theirs = fields[1:] + fields[:1] if has_seconds else list(fields)
    theirs[2] = theirs[2].replace("?", "*")
    if theirs[4].endswith("L"):
        theirs[4] = "L" + theirs[4][:-1]
    day_or = theirs[2][0] != "*" and theirs[4][0] != "*"
    return " ".join(theirs), day_or


LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_for_croniter(theirs, day_or):
    """Whether croniter gets an expression right: see above."""
    values, _ = croniter.expand(theirs)
    days, months, week = values[2:5]
    numbers = [day for day in days if isinstance(day, int)]
    if numbers and max(numbers) > 28 and min(numbers) <= 3:
        return False
    if day_or and numbers and min(numbers) > max(LONGEST[month - 1] for month in (range(1, 13) if months == ["*"] else months)):
        return False
    return not (week == ["*"] and theirs.split()[4][0] != "*") and not (len(values) == 6 and 7 in week)


# ---- local times and instants --------------------------------------------------------------------

def change_before(zone, at):
    """The first instant of the offset that holds at an instant, looking back three days."""
    low, high = at - 3 * DAY, at
    offset = at.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = (low + (high - low) / 2).replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == offset:
            high = middle
        else:
            low = middle
    return high


def instants(zone, local, is_star):
    """The instants of a local time, by the rules of docs/cron.md."""
    passes = [local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
    real = sorted({at for at in passes if at.astimezone(zone).replace(tzinfo=None, fold=0) == local})
    if is_star:
        return real
    if real:
        return real[:1]
    return [change_before(zone, passes[0])]  # in a gap: taken as before it, the local time is after it


AROUND = timedelta(hours=3)  # no clock is set back by more in the years asked for


def wanted_ticks(zone, theirs, day_or, is_star, after, count):
    """The next ticks, of croniter's local times and zoneinfo."""
    start = after.astimezone(zone).replace(tzinfo=None) - AROUND
    local_times = croniter(theirs, start, datetime, day_or=day_or)
    ticks = set()
    while True:
        local = local_times.get_next()
        if len(ticks) >= count:  # a later local time may be an earlier instant
            near = sorted(ticks)[:count]
            if local.replace(tzinfo=zone).astimezone(UTC) > near[-1] + AROUND:
                return near
        ticks.update(at for at in instants(zone, local, is_star) if at > after)


def is_dense(theirs):
    """Whether so many local times are near each other that looking at hours of them is too slow."""
    fields = theirs.split()
    return len(fields) == 6 or fields[0].startswith("*") or "/" in fields[0]


# ---- comparing -------------------------------------------------------------------------------------

def changes_of(zone, rng):
    """Clock changes of the zone, to begin near them."""
    found = []
    at = datetime(rng.randint(2005, 2035), 1, 1, tzinfo=UTC)
    while len(found) < 4 and at.year < 2040:
        if at.astimezone(zone).utcoffset() != (at + DAY).astimezone(zone).utcoffset():
            found.append(at)
        at += DAY
    return found


def is_quiet(zone, first, last):
    """Whether clocks do not change between two instants, nor a day around them."""
    if last - first > timedelta(days=20):
        return False
    at, offset = first - DAY, first.astimezone(zone).utcoffset()
    while at < last + DAY:
        if at.astimezone(zone).utcoffset() != offset:
            return False
        at += 3 * HOUR
    return True


def main():
    warnings.simplefilter("ignore")
    rng, tally, cases = random.Random(SEED), Tally(), []
    near = {name: [at for _ in range(3) for at in changes_of(ZoneInfo(name), rng)] for name in ZONES}
    while len(cases) < COUNT:
        name, fields = rng.choice(ZONES), expression(rng)
        theirs, day_or = for_croniter(fields)
        if not is_for_croniter(theirs, day_or):
            continue
        after = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randrange(55 * 365 * 86400))
        is_near = bool(near[name]) and not is_dense(theirs) and rng.random() < 0.6
        if is_near:
            after = rng.choice(near[name]) + timedelta(seconds=rng.randrange(-2 * 86400, 2 * 86400))
            if rng.random() < 0.5:  # where clocks are changed
                fields[-4:] = [rng.choice(NIGHT), "*", "*", "*"]
                theirs, day_or = for_croniter(fields)
        cases.append((name, fields, theirs, day_or, after, is_near))
    answers = ask(sys.argv[1:], [("next", name, " ".join(fields), milliseconds(after), 3 if is_near else 1)
                                 for name, fields, _, _, after, is_near in cases])
    for (name, fields, theirs, day_or, after, is_near), answer in zip(cases, answers):
        zone, question = ZoneInfo(name), f"{name} \"{' '.join(fields)}\" after {after}"
        if answer.startswith("!"):
            compare_refused(tally, question, theirs, day_or, after, answer)
            continue
        seen = [instant(int(tick)) for tick in answer.split()]
        if not is_near and name != "UTC" and not is_quiet(zone, after, seen[0]):
            if is_dense(theirs):
                continue  # no oracle that is fast enough
            is_near = True
        if is_near:
            is_star = fields[-4][0] == "*"
            wanted = wanted_ticks(zone, theirs, day_or, is_star, after, len(seen))
            tally.compare("around clock changes", question, wanted, seen)
        else:
            wanted = croniter(theirs, after.astimezone(zone), datetime, day_or=day_or).get_next()
            tally.compare("croniter alone", question, [wanted.astimezone(UTC)], seen)
    tally.finish(**{"around clock changes": 5000, "croniter alone": 15000})


def compare_refused(tally, question, theirs, day_or, after, answer):
    """What never comes has no next time for croniter, either."""
    try:
        wanted = croniter(theirs, after, datetime, day_or=day_or).get_next()
    except CroniterError:
        wanted = "never"
    tally.compare("refused", question, "never", "never" if wanted == "never" and "never comes" in answer else f"{answer}; croniter: {wanted}")


main()
