"""What the oracles share: asking the driver (driver.c), and telling what differs."""
import subprocess
import sys
from datetime import datetime, timedelta, timezone

UTC = timezone.utc
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHOWN_MAX = 10  # differences that are printed


def milliseconds(at):
    """Of an aware datetime, since 1970."""
    return (at - EPOCH) // timedelta(milliseconds=1)


def instant(ms):
    return EPOCH + timedelta(milliseconds=ms)


def ask(driver, questions):
    """The answers of the driver, one a question."""
    text = "".join("\t".join(str(word) for word in question) + "\n" for question in questions)
    done = subprocess.run(driver, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"the driver ended with {done.returncode}: {done.stderr}")
    answers = done.stdout.split("\n")[:-1]
    if len(answers) != len(questions):
        sys.exit(f"{len(questions)} questions, {len(answers)} answers: {done.stderr}")
    return answers


class Tally:
    """Counts comparisons; the program fails if one differs, or if there were too few."""

    def __init__(self):
        self.counts, self.differences = {}, 0

    def compare(self, what, question, wanted, seen):
        self.counts[what] = self.counts.get(what, 0) + 1
        if wanted == seen:
            return
        self.differences += 1
        if self.differences <= SHOWN_MAX:
            print(f"{what}: {question}\n  wanted {wanted}\n  seen   {seen}")

    def finish(self, **least):
        for what, count in self.counts.items():
            print(f"{what}: {count} compared")
        print(f"{self.differences} differences")
        missing = [what for what, count in least.items() if self.counts.get(what, 0) < count]
        if missing:
            print(f"too few compared: {', '.join(missing)}")
        sys.exit(1 if self.differences or missing else 0)
