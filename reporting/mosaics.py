"""Figures made of images: sample grids, translations. Each takes the arrays that `diptych extract samples` wrote."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from reporting.canvas import empty
from reporting.wording import name_of

Arrays = dict[str, np.ndarray]
LAYOUTS = {
    "style-by-row": "z^s changes by row,\nz^c (and label) by column",
    "content-by-row": "z^c changes by row,\nz^s (and label) by column",
    "both": "z^c and z^s both change",
}
NORMS = {"translated": "", "instance-normed": ", norms by image"}
"""How translations' instance norms were applied, by the name of their arrays."""


def mosaic(grid: np.ndarray) -> np.ndarray:
    """One picture (height, width, 3) from a grid of images (rows, columns, channels, height, width)."""
    framed = np.pad(grid, [(0, 0)] * 3 + [(0, 1), (0, 1)], constant_values=255)
    rows, columns, channels, height, width = framed.shape
    picture = framed.transpose(0, 3, 1, 4, 2).reshape(rows * height, columns * width, channels)
    return picture if channels == 3 else picture.repeat(3, axis=2)


def clients_of(arrays: Arrays, prefix: str) -> list[int]:
    """The clients that have a grid."""
    start = f"{prefix}/grid/"
    return sorted({int(key[len(start) :].split("/")[0]) for key in arrays if key.startswith(start)})


def _panels(pictures: Sequence[Sequence[tuple[str, np.ndarray]]], size: float = 2.0) -> Figure:
    """Pictures with titles, in rows and columns."""
    columns = max(len(row) for row in pictures)
    heights = [size * max(p.shape[0] / p.shape[1] for _, p in row) + 0.4 for row in pictures]
    figure, axes = plt.subplots(
        len(pictures),
        columns,
        figsize=(size * columns, sum(heights)),
        squeeze=False,
        layout="constrained",
        gridspec_kw={"height_ratios": heights},
    )
    for axis in axes.flat:
        axis.axis("off")
    for n, row in enumerate(pictures):
        for axis, (title, picture) in zip(axes[n], row, strict=False):
            axis.set_title(title, fontsize=7)
            axis.imshow(picture, interpolation="nearest")
    return figure


def _style(arrays: Arrays, prefix: str, client: int) -> str:
    return f"{client + 1}: {arrays[f'{prefix}/client/{client}/style']}"


def _said(layout: str, method: str) -> str:
    """Of a layout; what is not conditional has no label to change."""
    return LAYOUTS[layout] if "conditional" in method else LAYOUTS[layout].replace(" (and label)", "")


def by_client(method: str, layouts: Sequence[str], clients: slice = slice(None)) -> Callable[[Arrays], Figure]:
    """Panels for each layout and client, four in a row; latents are the same for all clients."""

    def draw(arrays: Arrays) -> Figure:
        chosen = clients_of(arrays, method)[clients]
        if not chosen:
            return empty()
        rows = []
        for layout in layouts:
            panels = [
                (f"{_style(arrays, method, k)}\n{_said(layout, method)}", mosaic(arrays[f"{method}/grid/{k}/{layout}"]))
                for k in chosen
            ]
            rows += [panels[n : n + 4] for n in range(0, len(panels), 4)]
        return _panels(rows, size=2.6)

    return draw


def by_method(methods: Sequence[str], round: int) -> Callable[[Arrays], Figure]:
    """Real images of each client above samples of each method, after a round where they were kept then (Fig. 7)."""

    def draw(arrays: Arrays) -> Figure:
        moments = ((f"{method}/after-{round}", method) for method in methods)
        found = ([prefix for prefix in of_method if clients_of(arrays, prefix)] for of_method in moments)
        there = [prefixes[0] for prefixes in found if prefixes]
        if not there:
            return empty()
        clients = clients_of(arrays, there[0])
        real = [(f"real\n{_style(arrays, there[0], k)}", _row_of(arrays, there[0], k)) for k in clients]
        made = [
            [(method.split("/")[0], mosaic(arrays[f"{method}/grid/{k}/both"])) for k in clients] for method in there
        ]
        return _panels([real, *made])

    return draw


def _row_of(arrays: Arrays, prefix: str, client: int, columns: int = 10) -> np.ndarray:
    """Real images in two rows."""
    images = arrays[f"{prefix}/client/{client}/real"]
    rows = min(2, len(images) // columns)
    return mosaic(images[: rows * columns].reshape(rows, columns, *images.shape[1:]))


def new_clients(method: str, round: int) -> Callable[[Arrays], Figure]:
    """Real images, and samples after a round, of new clients (Fig. 12)."""

    def draw(arrays: Arrays) -> Figure:
        clients = clients_of(arrays, f"{method}/after-{round}")
        if not clients:
            return empty()
        real = [(f"real\n{_style(arrays, method, k)}", _row_of(arrays, method, k)) for k in clients]
        grids = [
            (_said("style-by-row", method), mosaic(arrays[f"{method}/after-{round}/grid/{k}/style-by-row"]))
            for k in clients
        ]
        return _panels([real, grids], size=2.6)

    return draw


def restyled(methods: dict[str, str]) -> Callable[[Arrays], Figure]:
    """Content of one client in another's style: source, reconstruction, transfer; a row for each model (Fig. 15)."""

    def draw(arrays: Arrays) -> Figure:
        rows = []
        for method, name in methods.items():
            if f"{method}/restyle/clients" not in arrays:
                continue
            pairs = arrays[f"{method}/restyle/clients"].tolist()
            a, b = next(pair for pair in reversed(pairs) if pair[0] != pair[1])
            n, who = pairs.index([a, b]), f"{name}, {_style(arrays, method, a)}"
            titles = {"source": who, "reconstructed": "reconstructed", "restyled": f"as {_style(arrays, method, b)}"}
            images = {key: arrays[f"{method}/restyle/{key}"][n][:30] for key in titles}
            rows.append([(titles[key], mosaic(x.reshape(5, 6, *x.shape[1:]))) for key, x in images.items()])
        return _panels(rows, size=2.6) if rows else empty()

    return draw


def in_every_style(methods: dict[str, str]) -> Callable[[Arrays], Figure]:
    """Test images above the same in every client's style, a panel for each model (Fig. 16)."""

    def draw(arrays: Arrays) -> Figure:
        panels = []
        for method, name in methods.items():
            if f"{method}/restyle/test" in arrays:
                images = np.concatenate(
                    [arrays[f"{method}/restyle/test"][None], arrays[f"{method}/restyle/test-restyled"]]
                )
                panels.append((f"{name}: test images, then each client's style", mosaic(images[:, :16])))
        return _panels([panels], size=4.5) if panels else empty()

    return draw


def marked(method: str) -> Callable[[Arrays], Figure]:
    """Test images of each client, then images decoded from a grid of codes (Fig. 3, 4)."""

    def draw(arrays: Arrays) -> Figure:
        clients = _decoding(arrays, method)
        if not clients:
            return empty()
        real = [(_style(arrays, method, k), _square_of(arrays, method, k)) for k in clients]
        return _panels([real, _manifolds(arrays, method, clients)], size=2.6)

    return draw


def manifolds(method: str) -> Callable[[Arrays], Figure]:
    """Images decoded from a grid of codes by each client's decoder, two in a row as in Fig. 10 and 11."""

    def draw(arrays: Arrays) -> Figure:
        panels = _manifolds(arrays, method, _decoding(arrays, method))
        rows = [panels[n : n + 2] for n in range(0, len(panels), 2)]
        return _panels(rows, size=3.2) if rows else empty()

    return draw


def eavesdropped(method: str) -> Callable[[Arrays], Figure]:
    """Images of the cloud and of eavesdroppers, for the same noise and labels, a row for each user (Fig. 4)."""
    shown = ["cloud", "a1;r=1", "a2;r=0.9999", "a1;r=0.9999", "a1;r=1-1e-15", "a1;r=1;masks=own", "fresh"]

    def draw(arrays: Arrays) -> Figure:
        users = sorted({int(key.split("/")[3]) for key in arrays if key.startswith(f"{method}/made/")})
        rows = []
        for k in users:
            makers = [who for who in shown if f"{method}/made/{k}/{who}" in arrays]
            images = {who: arrays[f"{method}/made/{k}/{who}"][:20] for who in makers}
            rows.append([(f"user {k + 1}: {who}", mosaic(x.reshape(-1, 5, *x.shape[1:]))) for who, x in images.items()])
        return _panels(rows) if rows else empty()

    return draw


def translated(methods: dict[str, str], source: str, target: str, rows: int) -> Callable[[Arrays], Figure]:
    """Images of one domain above the same as another's, an image of each class by column (Fig. 3, 12, 13)."""

    def draw(arrays: Arrays) -> Figure:
        panels = []
        for (method, name), (kind, norms) in product(methods.items(), NORMS.items()):
            if f"{method}/{kind}/{source}/{target}" in arrays:
                shown = (f"{method}/real/{source}", f"{method}/{kind}/{source}/{target}")
                title = f"{name}{norms}\ndomain {source} above, as domain {target} below"
                panels.append((title, mosaic(np.concatenate([arrays[key][:rows] for key in shown]))))
        return _panels([panels], size=2.8) if panels else empty()

    return draw


def in_all_styles(variants: Mapping[str, str]) -> Callable[[Arrays], Figure]:
    """Images of one style in every other: a row a method, below what the images are and what they ought to look like.

    Args:
        variants: what variants of a method are called.
    """

    def draw(arrays: Arrays) -> Figure:
        methods = list(dict.fromkeys(key.split("/translated/")[0] for key in arrays if "/translated/" in key))
        if not methods:
            return empty()
        source, *targets = [key.split("/")[-1] for key in arrays if key.startswith(f"{methods[0]}/real/")]
        shown = {f"{source}, as it is": f"{methods[0]}/real/{source}", "the style's own": f"{methods[0]}/real/{{}}"}
        shown |= {"what it ought to be": f"{methods[0]}/counterpart/{source}/{{}}"}
        shown |= {
            _called(method, variants) + norms: f"{method}/{kind}/{source}/{{}}"
            for method, (kind, norms) in product(methods, NORMS.items())
        }
        shown = {name: key for name, key in shown.items() if key.format(targets[0]) in arrays}
        each = 10 if len(targets) < 4 else 4
        strips = {
            name: [mosaic(arrays[key.format(target)][:1, :each]) for target in targets] for name, key in shown.items()
        }
        return _sheet(strips, [f"as {target}" for target in targets])

    return draw


def _called(method: str, variants: Mapping[str, str]) -> str:
    name, variant = method.split("/")
    of = "" if variant == "default" else variants.get(variant, variant)
    return ", ".join(filter(None, [name_of("method", name, {}).short, of]))


def _sheet(strips: dict[str, list[np.ndarray]], heads: list[str]) -> Figure:
    """Pictures of one size in rows and columns, each row with its name on the left."""
    height, width, _ = next(iter(strips.values()))[0].shape
    across = 9 / len(heads)
    figure, axes = plt.subplots(
        len(strips),
        len(heads),
        figsize=(across * len(heads) + 1.5, across * height / width * len(strips) + 0.4),
        squeeze=False,
        layout=ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.01, wspace=0, hspace=0),
    )
    for row, (name, pictures) in zip(axes, strips.items(), strict=True):
        row[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=7)
        for axis, picture in zip(row, pictures, strict=True):
            axis.imshow(picture, interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
    for axis, head in zip(axes[0], heads, strict=True):
        axis.set_title(head, fontsize=8)
    return figure


def _decoding(arrays: Arrays, prefix: str) -> list[int]:
    """The clients that have a manifold."""
    start = f"{prefix}/manifold/"
    return sorted(int(key.removeprefix(start)) for key in arrays if key.startswith(start))


def _manifolds(arrays: Arrays, prefix: str, clients: Sequence[int]) -> list[tuple[str, np.ndarray]]:
    return [
        (f"{_style(arrays, prefix, k)}\nz by row, c by column", mosaic(arrays[f"{prefix}/manifold/{k}"]))
        for k in clients
    ]


def _square_of(arrays: Arrays, prefix: str, client: int, side: int = 4) -> np.ndarray:
    """Real images in a square, as many rows as there are images for."""
    images = arrays[f"{prefix}/client/{client}/real"]
    rows = max(1, min(side, len(images) // side))
    return mosaic(images[: rows * side].reshape(rows, -1, *images.shape[1:]))
