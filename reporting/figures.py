"""Every figure by its name, each a function of records (or of a run's small tables); published numbers are grey."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from common.errors import InputError
from common.files import written
from reporting.accuracies import by_round, probes, stylised, sweep
from reporting.attacks import by_factor, losses_of_attackers, losses_of_users
from reporting.canvas import theme
from reporting.common_ground import against_bytes, content_against_style, critical_differences
from reporting.counts import class_counts, class_fractions
from reporting.mosaics import (
    by_client,
    by_method,
    eavesdropped,
    in_all_styles,
    in_every_style,
    manifolds,
    marked,
    new_clients,
    restyled,
    translated,
)
from reporting.points import code_map, simpson, style_map
from reporting.translated import AGAINST_COST, against_cost, objectives, over_iterations
from reporting.wording import called, names

FORMATS = ("png", "pdf", "svg")
DPI = 150
CAPTION = "Description"
"""What a PNG calls the line below the figure, so that it can be read again."""
DEFAULT, CONDITIONAL = "padpaf/default", "padpaf/conditional"
RECONSTRUCTION = "feddva/reconstruction"
MODELS = {DEFAULT: "without labels", CONDITIONAL: "conditional"}
VARIANTS = {"stargan": "StarGAN", "pretraining": "short"}
ALL = ("style-by-row", "content-by-row", "both")
FIGURES: dict[str, Callable[[Any], Figure]] = {
    "fedstyle-figure4": style_map,
    "fedstyle-figure5": class_counts,
    "fedstyle-figure-stylised": stylised,
    "fedstyle-figure-style-epochs": sweep("style-epochs", "style_epochs", "E_s, epochs of style extraction"),
    "fedstyle-figure-lambda": sweep("table4", "lambda", "lambda, weight of the style-infused loss"),
    "padpaf-figure3": simpson(
        "",
        {
            "data": "data, a colour for each client",
            "generated": "samples of the linear GAN",
            "single regression": "one regression for all",
            "private biases": "federated weight, private biases",
        },
    ),
    "padpaf-figure4": probes("mnist", "label"),
    "padpaf-figure5": probes("cifar10", "label"),
    "padpaf-figure6": by_client(CONDITIONAL, ["content-by-row"]),
    "padpaf-figure7": by_method(["padpaf/default", "ditto/default", "ditto-fedprox/default"], 120),
    "padpaf-figure8": by_client("padpaf/vae", ["both"]),
    "padpaf-figure9": simpson(
        "cluttered",
        {"single regression": "one regression for all", "private biases": "federated weight, private biases"},
    ),
    "padpaf-figure10": by_client(DEFAULT, ["both", "style-by-row"]),
    "padpaf-figure11": by_client(CONDITIONAL, ["content-by-row", "style-by-row"]),
    "padpaf-figure12": new_clients(CONDITIONAL, 1),
    "padpaf-figure13": by_client(CONDITIONAL, ALL),
    "padpaf-figure14": probes("mnist", "client"),
    "padpaf-figure15": restyled(MODELS),
    "padpaf-figure16": in_every_style(MODELS),
    "padpaf-figure17": by_client(DEFAULT, ["style-by-row"], slice(1, None)),
    "padpaf-figure18": probes("celeba", "identity", shuffled=True),
    "padpaf-figure19": by_client(DEFAULT, ALL, slice(0, 3)),
    "padpaf-figure20": by_client(DEFAULT, ALL, slice(3, 6)),
    "padpaf-figure21": by_client(DEFAULT, ALL, slice(6, 10)),
    "feddva-figure3": marked(RECONSTRUCTION),
    "feddva-figure4": marked(RECONSTRUCTION),
    "feddva-figure5": code_map,
    "feddva-figure6": by_round("client-marks"),
    "feddva-figure7": by_round("label-skew"),
    "feddva-figure8": class_fractions,
    "feddva-figure10": manifolds(RECONSTRUCTION),
    "feddva-figure11": manifolds(RECONSTRUCTION),
    "psfedgan-figure3": by_factor,
    "psfedgan-figure4": eavesdropped("ps-fedgan/default"),
    "psfedgan-figure5": losses_of_users,
    "psfedgan-figure6": losses_of_attackers(
        {
            "user": "user and cloud",
            "attacker-a1;r=1": "A1, r = 1 (the same line)",
            "attacker-a1;r=1-1e-7": "A1, r = 1-1e-7",
            "attacker-a1;r=0.9999": "A1, r = 0.9999",
            "attacker-a1;r=1;masks=own": "A1, r = 1, own masks",
            "attacker-fresh": "fresh generator",
        }
    ),
    "psfedgan-figure7": eavesdropped("ps-fedgan/default"),
    "psfedgan-figure8": eavesdropped("ps-fedgan/default"),
    **{f"fedinb-figure{n}": against_cost(*shown) for n, shown in AGAINST_COST.items()},
    "fedinb-figure3": translated(
        {
            "fedinb-hist-indae/default": "(a) HistIndAEINB",
            "fedstargan/sync_step=16": "(b) FedStarGAN-16",
            "fedstargan/sync_step=16;width=16": "(b) FedStarGAN-16, narrow",
            "fedstargan/sync_step=128": "(c) FedStarGAN-128",
            "fedstargan/sync_step=128;width=16": "(c) FedStarGAN-128, narrow",
        },
        "0",
        "60",
        rows=2,
    ),
    "fedinb-figure12": translated(
        {
            "fedinb/default": "(a) INB, J = 100",
            "fedinb-indae/j=200": "(b) IndAEINB, J = 200",
            "fedinb-hist-indae/default": "(c) HistIndAEINB, J = 100",
        },
        "0",
        "60",
        rows=3,
    ),
    "fedinb-figure13": translated({"fedinb-hist-indae/default": "HistIndAEINB"}, "0", "60", rows=3),
    "fedinb-figure14": over_iterations,
    "fedinb-figure15": objectives,
    "fedinb-figure16": objectives,
    "common-bytes": against_bytes,
    "common-codes": content_against_style,
    "common-ranks": critical_differences,
    **{f"common-{dataset}": in_all_styles(VARIANTS) for dataset in ("natural", "transforms", "rotations", "pacs")},
}


def in_words(records: pd.DataFrame, words: Mapping[str, Mapping[str, str | Sequence[str]]]) -> pd.DataFrame:
    """Records with a column more, `called`: the method and its variant, as the tables of a paper with these words have
    them."""
    known, columns = names(words), ["method", "variant"]
    pairs = records[columns].itertuples(index=False)
    return records.assign(called=[", ".join(called(columns, pair, known)) for pair in pairs])


def caption(file: Path) -> str:
    """The line that a figure in PNG was drawn with; nothing if it does not say."""
    with Image.open(file) as image:
        return str(image.info.get(CAPTION, ""))


def write_figure(name: str, data: Any, about: str, files: Sequence[Path]) -> None:
    """Draw a figure from its data and save it in the format of each file's name.

    Raises:
        InputError: there is no such format.
    """
    forms = {file: file.suffix.lstrip(".") for file in files}
    for file, form in forms.items():
        if form not in FORMATS:
            raise InputError(f"{file}: unknown format '{form}'; allowed: {', '.join(FORMATS)}")
    theme()
    figure = FIGURES[name](data)
    per_line = int(figure.get_figwidth() * 20)  # letters of this size to an inch
    figure.text(0, -0.02, textwrap.fill(about, per_line), fontsize=7, color="0.4", va="top")
    figure.set_dpi(DPI)
    figure.draw_without_rendering()  # lays it out: once, and not twice for each format
    figure.set_layout_engine("none")
    box = figure.get_tightbbox().padded(mpl.rcParams["savefig.pad_inches"])
    # no dates, so that the same records give the same bytes
    metadata = {"png": {"Software": None, CAPTION: about}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    for file, form in forms.items():
        with written(file) as part:
            figure.savefig(part, format=form, dpi=DPI, bbox_inches=box, metadata=metadata[form])
    plt.close(figure)
