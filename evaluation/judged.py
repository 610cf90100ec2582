"""What the judge says of generated images: whether they show what was asked for, and content moved to another style."""

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


ASKED = {"seen": ("generated", "held-out"), "unseen": ("unseen", "held-out-unseen")}
"""Labels that a client has images of, and others: its generated images of these, and real ones in its view."""


def asked_labels(run: RunFolder) -> Iterator[dict[str, Any]]:
    """How often images show the label that was asked for, by client and in the mean: of labels that a client has seen,
    and of those that it has not.

    Without the first, nobody can tell a label that is not learnt yet from one that does not transfer. The control asks
    for the labels in another order; the ceiling is how often real test images of these labels, in the client's view,
    are read right. Runs that started from another one are measured after each snapshot, too, and by style, for new
    clients (Fig. 12 and 13).
    """
    if not any(key.endswith("/unseen") for key in run.samples):
        return
    judge = load(run.judge)
    for kind, (made, real) in ASKED.items():
        name = f"samples={kind}-labels;judge={run.spec.data.dataset}-classifier"
        right = {k: _as_asked(judge, run.samples, k, made, real) for k in _with_unseen(run.samples)}
        for k, shares in right.items():
            style = str(run.samples[f"client/{k}/style"])
            for control, share in shares.items():
                who = {"style": style, "client": f"client-{k + 1}", "control": control}
                yield _record(name, "accuracy", share, **who)
            if run.spec.start:
                yield _record(f"samples={kind}-labels;style={style}", "accuracy", shares[""], style=style)
        yield from _means(name, right)
        for round in run.snapshots if run.spec.start else []:
            arrays = run.after(round)
            right = {k: _as_asked(judge, arrays, k, made, real) for k in _with_unseen(arrays)}
            yield from _means(f"samples={kind}-labels;phase=new-clients;rounds={round}", right)


def _with_unseen(arrays: Arrays) -> list[int]:
    return [k for k in clients_of(arrays) if f"client/{k}/unseen" in arrays]


def _as_asked(judge: Judge, arrays: Arrays, client: int, made: str, real: str) -> dict[str, float]:
    """Control -> the share of images that show what was asked for, or what was of another; of real ones, read right."""
    seen, asked = judge(arrays[f"client/{client}/{made}"])[1], arrays[f"client/{client}/{made}/labels"]
    held_out, labels = judge(arrays[f"client/{client}/{real}"])[1], arrays[f"client/{client}/{real}/labels"]
    return {
        "": float((seen == asked).mean()),
        "shuffled-labels": float((seen == np.random.default_rng(0).permutation(asked)).mean()),
        "ceiling": float((held_out == labels).mean()),
    }


def _means(setting: str, right: dict[int, dict[str, float]]) -> Iterator[dict[str, Any]]:
    """Over clients."""
    for control in next(iter(right.values())):
        mean = float(np.mean([shares[control] for shares in right.values()]))
        yield _record(setting, "accuracy", mean, control=control)


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
    """Fig. 16: test images, which no client saw as they are, in every client's style, by client and in the mean.

    `label_agreement` is with the true label.
    """
    restyled, labels = arrays["restyle/test-restyled"], arrays["restyle/test-labels"]
    shuffled = np.random.default_rng(0).permutation(labels)
    read = [judge(images)[1:] for images in restyled]
    found = {
        ("label_agreement", ""): [float((seen == labels).mean()) for seen, _ in read],
        ("label_agreement", "shuffled-labels"): [float((seen == shuffled).mean()) for seen, _ in read],
        ("client_accuracy", ""): [float((owner == k).mean()) for k, (_, owner) in enumerate(read)],
    }
    for (metric, control), shares in found.items():
        for k, share in enumerate(shares):
            yield _record("images=test", metric, share, client=f"client-{k + 1}", control=control)
        yield _record("images=test", metric, float(np.mean(shares)), control=control)
    yield from judge.ceiling("accuracy", "target=label", of="label_agreement", setting="images=test")
    yield from judge.ceiling("accuracy", "target=client", of="client_accuracy", setting="images=test")
