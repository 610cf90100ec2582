"""What a long job says while it runs."""

import sys
import time


class Progress:
    """Prints one line every few seconds: which run, which round, how long still."""

    def __init__(self, run: str, rounds: int, every: float = 5.0) -> None:
        self.run, self.rounds, self.every = run, rounds, every
        self.printed = time.monotonic()
        self.first: tuple[float, int] | None = None

    def __call__(self, round: int, done: int, total: int) -> None:
        """Called after each client step with the steps done and to be done in all."""
        now = time.monotonic()
        if self.first is None:  # reading data took its time before, and a resumed run starts in the middle
            self.first = now, done
        started, first_done = self.first
        if now - self.printed < self.every or done == first_done:
            return
        self.printed = now
        left = (now - started) * (total - done) / (done - first_done)
        self.say(f"round {round}/{self.rounds}, {done / total:.0%} done, {duration(left)} left")

    def say(self, text: str) -> None:
        """Print a line that starts with the run's name."""
        print(f"[{self.run}] {text}", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Seconds as a person says them, such as `1 h 5 min`."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
