"""Images of labels that were asked for: one evaluation, of which PaDPaF's protocol (Fig. 6 and 11 to 13) and that of
common ground are settings."""

from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from common.run_folder import RunFolder
from evaluation.images import Judged
from evaluation.rows import Part, averaged


def _with_what_was_asked(controls: dict[str, list[str]]) -> dict[str, list[str]]:
    if "" not in controls:
        raise ValueError("must have the control '', the images that were asked for")
    return controls


Names = Annotated[list[str], Field(min_length=2, max_length=2)]
Images = dict[str, Annotated[dict[str, Names], AfterValidator(_with_what_was_asked)]]
Reading = Literal["accuracy", "label_agreement", "style_agreement"]


def asked(
    run: RunFolder, *, images: Images, reads: list[Reading], against: str = "", each: bool = False
) -> Iterator[dict[str, Any]]:
    """Images of labels that clients' own generators were asked for, the mean over the clients that have left them.

    Args:
        images: setting -> control -> the arrays of images and of labels, with `<k>` for the client; of the control ''
            what was asked for, of floors and ceilings real images.
        reads, against: what the judge is asked, and the real images that distances are to: see `Judged.numbers`.
        each: whether there are records of each client. Runs that started from another one are then measured by style as
            well, and after each snapshot, as PaDPaF's new clients are (Fig. 12 and 13).
    """
    shown, parts = Judged(run, run.samples), partial(_parts, images, reads, against)
    judged = f";judge={run.spec.data.dataset}-classifier" if each else ""
    for setting in images:
        last = list(averaged(parts(setting, shown, judged, each=each)))
        yield from last
        if each and run.spec.start:
            for row in last:
                if "client" in row and not row["control"]:
                    yield row | {"client": "", "setting": f"{setting};style={row['style']}"}
            for round in run.snapshots:
                then = parts(setting, Judged(run, run.after(round)), f";phase=new-clients;rounds={round}", each=False)
                yield from averaged(then)


def _parts(
    images: Images, reads: list[Reading], against: str, setting: str, shown: Judged, more: str, *, each: bool
) -> Iterator[Part]:
    """By control and client that has left images of all settings; of this one, to which `more` is added. A control of
    which a client has no image is left out, and so are distances to such: a mean over the others would be another
    number."""
    made = [by[""][0] for by in images.values()]
    clients = [k for k in shown.styles if all(_of(k, name) in shown.arrays for name in made)]
    there = {
        c: names for c, names in images[setting].items() if all(len(shown.arrays[_of(k, names[0])]) for k in clients)
    }
    to_real = bool(against) and all(len(shown.arrays[_of(k, against)]) for k in clients)
    for (control, names), k in product(there.items(), clients):
        style, own = shown.styles[k], [_of(k, name) for name in names]
        who = {"style": style, "client": f"client-{k + 1}"} if each else None
        numbers = shown.numbers(reads, control, own, style, _of(k, against) if to_real else "")
        yield Part({"setting": setting + more, "control": control}, numbers, who)


def _of(client: int, name: str) -> str:
    return name.replace("<k>", str(client))
