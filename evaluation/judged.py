"""What the judge says of generated images: labels never seen, new clients, and content moved to another style."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from common.run_folder import RunFolder
from evaluation.frechet import clients_of
from evaluation.judge import Judge, load
from evaluation.rows import result

Arrays = dict[str, np.ndarray]


def _record(setting: str, metric: str, value: float, **more: str) -> dict[str, Any]:
    return result(metric, "fraction", value, setting=setting, **more)


def judge_quality(run: RunFolder) -> Iterator[dict[str, Any]]:
    """How far the judge can be trusted: what it says of real test images as clients see them, of the same with noise,
    shifted and blurred, and of nothing but noise (`evaluation.judge.examined`)."""
    if run.samples and run.judge is not None and run.judge.is_file():
        for row in load(run.judge).quality:
            yield _record(str(row["setting"]), str(row["metric"]), float(row["value"]), kind="judge", role="real")


def unseen_labels(run: RunFolder) -> Iterator[dict[str, Any]]:
    """How often images of labels that a client never saw show them, by client, and in the mean.

    The control asks for the labels in another order; the ceiling is how often real images are read right. Runs that
    started from another one are measured after each snapshot, too, and by style, for new clients (Fig. 12 and 13).
    """
    if not any(key.endswith("/unseen") for key in run.samples):
        return
    judge = load(run.judge)
    name = f"samples=unseen-labels;judge={run.spec.data.dataset}-classifier"
    right = {k: _as_asked(judge, run.samples, k) for k in clients_of(run.samples) if _has_unseen(run.samples, k)}
    for k, (hit, by_chance) in right.items():
        style = str(run.samples[f"client/{k}/style"])
        yield _record(name, "accuracy", hit, style=style, client=f"client-{k + 1}")
        yield _record(name, "accuracy", by_chance, style=style, client=f"client-{k + 1}", control="shuffled-labels")
        if run.spec.start:
            yield _record(f"samples=unseen-labels;style={style}", "accuracy", hit, style=style)
    for column, control in ((0, ""), (1, "shuffled-labels")):
        mean = float(np.mean([pair[column] for pair in right.values()]))
        yield _record(name, "accuracy", mean, control=control)
    yield from judge.ceiling("accuracy", "target=label", setting=name)
    for round in run.snapshots if run.spec.start else []:
        arrays = run.after(round)
        hits = [_as_asked(judge, arrays, k)[0] for k in clients_of(arrays) if _has_unseen(arrays, k)]
        setting = f"samples=unseen-labels;phase=new-clients;rounds={round}"
        yield _record(setting, "accuracy", float(np.mean(hits)))


def _has_unseen(arrays: Arrays, client: int) -> bool:
    return f"client/{client}/unseen" in arrays


def _as_asked(judge: Judge, arrays: Arrays, client: int) -> tuple[float, float]:
    """The share of images that show what they were asked to, and of those that show what another was."""
    _, seen, _ = judge(arrays[f"client/{client}/unseen"])
    asked = arrays[f"client/{client}/unseen/labels"]
    return float((seen == asked).mean()), float((seen == np.random.default_rng(0).permutation(asked)).mean())


def restyling(run: RunFolder) -> Iterator[dict[str, Any]]:
    """Algorithm 2 in numbers, which the paper lacks.

    `label_agreement`: the judge reads the same label before and after the transfer to another client; the control
    pairs images at random. `client_accuracy`: it takes the image for one of the target. `pixel_error`: mean absolute
    difference, in [0, 1], of an image and its reconstruction; the control compares it with another one's. Ceilings are
    of real images: the same digit in two clients' eyes, and clients' own.
    """
    arrays = run.samples
    if "restyle/source" not in arrays:
        return
    judge, clients = load(run.judge), arrays["restyle/clients"]
    rng = np.random.default_rng(0)
    moved = clients[:, 0] != clients[:, 1]

    def flat(key: str, rows: np.ndarray) -> np.ndarray:
        images = arrays[f"restyle/{key}"][rows]
        return images.reshape(-1, *images.shape[2:])

    before, after = judge(flat("source", moved))[1], judge(flat("restyled", moved))
    yield _record("", "label_agreement", float((before == after[1]).mean()))
    yield _record("", "label_agreement", float((before == rng.permutation(after[1])).mean()), control="shuffled-labels")
    target = np.repeat(clients[moved][:, 1], arrays["restyle/source"].shape[1])
    yield _record("", "client_accuracy", float((after[2] == target).mean()))
    yield _record("", "client_accuracy", float((after[2] == rng.permutation(target)).mean()), control="shuffled-labels")
    yield from judge.ceiling("label_agreement", "views=two")
    yield from judge.ceiling("accuracy", "target=client", of="client_accuracy")
    source, again = (flat(key, ~moved).astype(float) / 255 for key in ("source", "reconstructed"))
    yield _record("", "pixel_error", float(np.abs(source - again).mean()))
    yield _record("", "pixel_error", float(np.abs(source - rng.permutation(again)).mean()), control="shuffled-labels")
    yield from _test_images(arrays, judge)


def _test_images(arrays: Arrays, judge: Judge) -> Iterator[dict[str, Any]]:
    """Fig. 16: test images, which no client saw as they are, in every client's style."""
    restyled, labels = arrays["restyle/test-restyled"], arrays["restyle/test-labels"]
    for k, images in enumerate(restyled):
        _, seen, owner = judge(images)
        who = {"client": f"client-{k + 1}"}
        yield _record("images=test", "label_agreement", float((seen == labels).mean()), **who)
        yield _record("images=test", "client_accuracy", float((owner == k).mean()), **who)
