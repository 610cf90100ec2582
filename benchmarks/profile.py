"""What a step of each method is made of: torch's profiler on one client's step, at the papers' sizes.

    python -m benchmarks.profile
    python -m benchmarks.profile --networks fedinb --steps 20

Shares of all time in operators, by kind (`KINDS`); what is of no kind is `all else`, with its three largest named.
"""

import argparse
import re
from collections import Counter

from torch.profiler import ProfilerActivity, profile

from benchmarks.gpu import CASES, Clients
from diptych.process import use_threads

KINDS = {
    "convolutions and products": r"conv|mm$|bmm$|addmm|matmul|linear",
    "batch norm": r"batch_norm",
    "pooling and resizing": r"pool|upsample|interpolate",
    "optimiser": r"_fused_|_foreach_|adam|sgd",
}
"""Kind -> what the names of its operators match; the first that does counts."""
ELSE = "all else"


def kind_of(operator: str) -> str:
    """Of an operator's name, such as `aten::mm`."""
    name = operator.removeprefix("aten::").removesuffix("_")
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, name)), ELSE)


def shares(case: str, steps: int, small: bool = False) -> tuple[Counter[str], Counter[str]]:
    """Shares of time in operators themselves, by kind and, of what has none, by operator. The first step, in which
    libraries choose their kernels, is not in it."""
    client = Clients(case, 1, "cpu", small=small)
    client.one(0)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for _ in range(steps):
            client.one(0)
    events = {event.key: event.self_cpu_time_total for event in seen.key_averages()}
    whole = sum(events.values())
    by_kind, others = Counter[str](), Counter[str]()
    for key, spent in events.items():
        by_kind[kind_of(key)] += spent / whole
        if kind_of(key) == ELSE:
            others[key.removeprefix("aten::")] += spent / whole
    return by_kind, others


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--small", action="store_true", help="narrow networks and four images: a trial of the command")
    options = parser.parse_args()
    use_threads(1)
    print(f"| network | {' | '.join(KINDS)} | {ELSE} |\n|{'---|' * (len(KINDS) + 2)}")
    for case in options.networks:
        by_kind, others = shares(case, options.steps, options.small)
        told = [f"{by_kind[kind]:.0%}" for kind in KINDS]
        most = ", ".join(f"{operator} {share:.0%}" for operator, share in others.most_common(3))
        print(f"| {case} | {' | '.join(told)} | {by_kind[ELSE]:.0%}: {most} |", flush=True)


if __name__ == "__main__":
    main()
