"""What every algorithm is asked alike, so that one table can hold them all: codes of content and of style, answers,
images of labels that are asked for, and images in another client's style.

An algorithm leaves the arrays of what it is able to do and of nothing else; evaluations never ask which one it is.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from abilities.codes import chosen_of, posteriors
from abilities.decoding import has_decoder, images_from
from abilities.features import passed, shared_model, with_statistics
from abilities.generation import classes_of, images
from abilities.scoring import used
from abilities.trained import Arrays, Look, Trained, as_bytes, looked_at, settled
from abilities.translation import Translate, by_norms, domains_of, of_each_class, translate_of
from federation import copied
from federation.hooks import Restyling, pooled
from objectives import Generative
from objectives.cgan import images_of

# ---- codes


class Encoder(NamedTuple):
    """A model, and how the code of images in [0, 1] is read off it: (model, images) -> {"code": (images, d)}."""

    model: Any
    look: Look

    def __call__(self, x: Tensor) -> np.ndarray:
        """Codes (images, d)."""
        return looked_at(self.look, self.model, x)["code"].numpy()


def codes(trained: Trained) -> Arrays:
    """`codes/<part>/...`: of some images of every client as it sees them, the code of `content` by the model that all
    share, and of `style` (images, clients, d) by every client's own; beside them what an untrained model makes of
    content, pixels, label, client and, the client's style by its number, domain. Where no model is shared there is
    `own-content` (images, clients, d)."""
    encoders, clients = _encoders(trained), len(trained.dealt.clients)
    arrays: Arrays = {}
    for part in ("train", "test") if encoders else ():
        rows = [chosen_of(trained, k, part, max(2, trained.spec.samples.probed // clients)) for k in range(clients)]
        x = torch.cat([trained.seen(k, own, part) for k, own in enumerate(rows)])
        found = {
            name: by(x) if isinstance(by, Encoder) else np.stack([encoder(x) for encoder in by], axis=1)
            for name, by in encoders.items()
        }
        found |= {"pixels": as_bytes(x).reshape(len(x), -1), "label": trained.dealt.labels[torch.cat(rows)].numpy()}
        sizes = [len(own) for own in rows]
        found |= {"client": np.repeat(range(len(rows)), sizes), "domain": np.repeat(trained.dealt.client_styles, sizes)}
        arrays |= {f"codes/{part}/{name}": array for name, array in found.items()}
    return arrays


def _encoders(trained: Trained) -> dict[str, Encoder | list[Encoder]]:
    content, style = _looks(trained)
    found: dict[str, Encoder | list[Encoder]] = {}
    if content is not None:
        shared = whole_shared(trained, content)
        if shared:
            found["content"] = Encoder(shared, content)
        else:
            found["own-content"] = [Encoder(model, content) for model in trained.own]
        untrained = with_statistics(copied(trained.simulation.template), content, trained.trained_on)
        found["untrained-content"] = Encoder(settled(untrained), content)
    if style is not None:
        found["style"] = [Encoder(model, style) for model in trained.own]
    if (cloud := getattr(trained.simulation.server_work, "classifier", None)) is not None:  # users have none
        found["content"] = Encoder(cloud, lambda m, x: {"code": m.encoder(x)})
    return found


def _looks(trained: Trained) -> tuple[Look | None, Look | None]:
    """How the codes of content and of style are read off what a client holds; None where there is none.

    A translator has none: its maps are chosen by the label, so that a probe would read what the code was told.
    """
    algorithm, objective, template = trained.algorithm, trained.objective, trained.simulation.template
    if translate_of(algorithm) is not None or not hasattr(algorithm.global_model(template), "encoder"):
        return None, None
    if isinstance(objective, Generative):
        return (
            lambda m, x: {"code": algorithm.global_model(m).encoder(objective.scaled(x))},
            lambda m, x: {"code": algorithm.personal_model(m).style.encoder(objective.scaled(x))},
        )
    if has_decoder(trained):
        return (
            lambda m, x: {"code": posteriors(algorithm.global_model(m), x)["z"]},
            lambda m, x: {"code": posteriors(algorithm.personal_model(m), x)["c"]},
        )
    content = lambda m, x: {"code": algorithm.global_features(m, x)["features"]}  # noqa: E731
    if hasattr(template, "style"):
        return content, lambda m, x: {"code": algorithm.personal_features(m, x)["style"]}
    return content, None


def whole_shared(trained: Trained, look: Look) -> Any:
    """The model that all share, or the only one; None if a look at it passes through what has not travelled."""
    if not pooled(trained.algorithm):
        modules = passed(look, trained.simulation.shared_model(), trained.trained_on[:2])
        names = {f"{path}.{name}" for path, m in modules.items() for name, _ in m.named_parameters(recurse=False)}
        if not names or not names <= trained.simulation.server.tensors.keys():
            return None
    return settled(shared_model(trained, look, trained.trained_on))


# ---- answers


Answer = Callable[[Tensor, Tensor], np.ndarray]
"""(images in [0, 1], labels) -> which of them are read right."""


def answers(trained: Trained) -> Arrays:
    """`answers/own`, `/shared`: whether the label of each client's test images is read right by its own model, and by
    the server's; `answers/client`, whose they are, and `answers/label`. `answers/<style>/own`, `/shared`: the same of
    all test images of a style that no client has, where `own` is the share of the clients whose models are right."""
    dealt, own = trained.dealt, _own_answers(trained)
    answering = {who: by for who, by in (("own", own), ("shared", _shared_answers(trained, bool(own)))) if by}
    if not answering:
        return {}
    tested = [(trained.seen(k, rows, "answers"), dealt.labels[rows]) for k, rows in enumerate(dealt.tests)]
    arrays = {
        f"answers/{who}": np.concatenate([_of_client(by, k)(*mine) for k, mine in enumerate(tested)])
        for who, by in answering.items()
    }
    arrays["answers/client"] = np.repeat(range(len(tested)), [len(y) for _, y in tested])
    arrays["answers/label"] = torch.cat([y for _, y in tested]).numpy()
    for style in set(range(len(dealt.styles))) - set(dealt.seen):
        rows = dealt.test[style]
        x, y = trained.of_style(style, rows), dealt.labels[rows]
        for who, by in answering.items():
            arrays[f"answers/{dealt.styles[style]}/{who}"] = np.mean([answer(x, y) for answer in by], axis=0)
    return arrays


def _own_answers(trained: Trained) -> list[Answer]:
    """By each client's model as it would use it, or by the one of all; nothing where it has no head."""
    algorithm, models = trained.algorithm, [used(trained, k) for k in trained.clients]
    look = lambda m, x, y: {"right": algorithm.scores(m, x, y)["accuracy"]}  # noqa: E731
    if "accuracy" not in looked_at(algorithm.scores, models[0], trained.trained_on[:1], trained.dealt.labels[:1]):
        return []
    return [_answer(model, look) for model in models]


def _shared_answers(trained: Trained, has_heads: bool) -> list[Answer]:
    """By the model that all share, or the server's own; nothing where there is none with a head."""
    algorithm, work = trained.algorithm, trained.simulation.server_work
    if work is not None and hasattr(work, "classifier"):
        return [lambda x, y: work.scores(x, y)["accuracy"].cpu().numpy()]
    look = lambda m, x, y: {"right": trained.objective.scores(algorithm.global_model(m), x, y)["accuracy"]}  # noqa: E731
    read = lambda m, x: look(m, x, torch.zeros(len(x), dtype=torch.long, device=x.device))  # noqa: E731
    shared = whole_shared(trained, read) if has_heads else None
    return [_answer(shared, look)] if shared else []


def _answer(model: Any, look: Look) -> Answer:
    return lambda x, y: looked_at(look, model, x, y)["right"].numpy()


def _of_client(by: list[Any], client: int) -> Any:
    """One of those that there are for each client; or the one for all of them."""
    return by[client] if len(by) > 1 else by[0]


# ---- images of labels that are asked for


def asked(trained: Trained) -> Arrays:
    """`asked/<k>/made`: images by client k's own generator; `asked/<k>/labels`: what was asked for, evenly over the
    labels of its images, or -1 where no label can be; `asked/<k>/real`, `/real-labels`: as many test images of its
    style and these labels, and `other`, `/other-labels`: training images of the same; `own`, `/own-labels`: its own
    training images, which have its labels as often as it has them and as the best generator that cannot be asked."""
    make = _maker(trained)
    if make is None:
        return {}
    arrays: Arrays = {}
    dealt = trained.dealt
    for k, style in enumerate(dealt.client_styles):
        known, count = classes_of(trained, k), trained.spec.samples.images
        labels = known.repeat(-(-count // len(known)))[:count]
        made, told = make(k, labels, trained.stream("asked", k))
        arrays |= {
            f"asked/{k}/made": as_bytes(made),
            f"asked/{k}/labels": labels.numpy() if told else np.full(count, -1),
        }
        for name, whole in (
            ("real", dealt.tests[k]),
            ("other", dealt.train[style].unique()),
            ("own", dealt.clients[k]),
        ):
            rows = trained.some(whole[torch.isin(dealt.labels[whole], known)], count, "asked", name, k)
            arrays |= {
                f"asked/{k}/{name}": as_bytes(trained.seen(k, rows, "asked")),
                f"asked/{k}/{name}-labels": dealt.labels[rows].numpy(),
            }
    return arrays


Make = Callable[[int, Tensor, torch.Generator], tuple[Tensor, bool]]
"""(client, labels, random numbers) -> images in [0, 1], and whether they were told the labels."""


def _maker(trained: Trained) -> Make | None:
    template = trained.simulation.template
    if isinstance(trained.objective, Generative):
        models, told = trained.personal_models, trained.objective.conditional
        return lambda k, y, draw: (torch.cat(list(images(trained, _of_client(models, k), y, draw))), told)
    if hasattr(template, "generator") and hasattr(template, "discriminator"):
        return lambda k, y, draw: (_by_gan(_of_client(trained.own, k).generator, y, draw), True)
    if has_decoder(trained):
        return lambda k, y, draw: (_decoded(_of_client(trained.own, k), len(y), draw), False)
    return None


@torch.no_grad()
def _by_gan(generator: Any, labels: Tensor, draw: torch.Generator) -> Tensor:
    return images_of(generator, torch.randn(len(labels), generator.latent, generator=draw), labels)


def _decoded(model: Any, count: int, draw: torch.Generator) -> Tensor:
    """Of z and c drawn from their prior."""
    z, c = (torch.randn(count, model.encoder.latent, generator=draw) for _ in range(2))
    return images_from(model, z, c)


# ---- images in another client's style


def translated(trained: Trained) -> Arrays:
    """`real/<source>`, test images of a style as its clients see them, and `label/<source>`; `translated/<source>/
    <target>`, the same as images of another, and `instance-normed/<source>/<target>`, see `by_norms`;
    `counterpart/<source>/<target>`, where it is known what they ought to be; and `other/<style>`, training images of
    the style, with `other-label/<style>`."""
    dealt = trained.dealt
    styles, count = domains_of(dealt), trained.spec.samples.images
    rows = {name: of_each_class(dealt, dealt.test[style], count) for name, style in styles.items()}
    shown = {name: trained.of_style(style, rows[name]) for name, style in styles.items()}
    labels = {name: dealt.labels[own] for name, own in rows.items()}
    others = {name: of_each_class(dealt, dealt.train[style], count) for name, style in styles.items()}
    learned_from = {name: trained.of_style(style, others[name]) for name, style in styles.items()}
    arrays = {
        f"{kind}/{a}/{b}": as_bytes(images)
        for kind, translate in _translators(trained, learned_from).items()
        for (a, b), images in translate(shown, labels)
    }
    if not arrays:
        return arrays
    for source in styles:
        arrays |= {
            f"real/{source}": as_bytes(shown[source]),
            f"label/{source}": labels[source].numpy(),
            f"other/{source}": as_bytes(learned_from[source]),
            f"other-label/{source}": dealt.labels[others[source]].numpy(),
        }
    for a, b, known in _counterparts(trained, styles, rows):
        arrays[f"counterpart/{a}/{b}"] = as_bytes(known)
    return arrays


Shown = dict[str, Tensor]
"""Of each style, images in [0, 1], or their labels."""
Pairs = Iterator[tuple[tuple[str, str], Tensor]]
"""(source, target), and the images."""


def _translators(trained: Trained, learned_from: Shown) -> dict[str, Callable[[Shown, Shown], Pairs]]:
    """What the arrays of images are called -> what makes them."""
    if (translate := translate_of(trained.algorithm)) is not None:
        members = torch.nn.ModuleList(trained.with_shared[:: trained.spec.data.clients_per_style])
        return {kind: partial(_by_translator, translate, models) for kind, models in by_norms(members).items()}
    if isinstance(trained.algorithm, Restyling):
        return {"translated": partial(_by_restyling, trained)}
    if has_decoder(trained):
        return {"translated": partial(_by_exchange, trained, learned_from)}
    return {}


def _by_translator(translate: Translate, members: torch.nn.ModuleList, x: Shown, y: Shown) -> Pairs:
    for a, source in enumerate(x):

        def look(members: Any, images: Tensor, labels: Tensor, a: int = a) -> dict[str, Tensor]:
            return dict(zip(x, translate(members, images, labels, a, range(len(x))), strict=True))

        yield from (((source, b), made) for b, made in looked_at(look, members, x[source], y[source]).items())


def _by_restyling(trained: Trained, x: Shown, y: Shown) -> Pairs:
    """By the method's own procedure, which is given all images at once, since it trains before it transfers."""
    assert isinstance(trained.algorithm, Restyling)
    draw, everything = trained.stream("comparable", "re-styling"), torch.cat(list(x.values()))
    found = trained.algorithm.restyled(trained.global_models, draw, everything, torch.cat(list(y.values())))
    if "restyle/test-restyled" in found:
        made = found["restyle/test-restyled"][:: trained.spec.data.clients_per_style]
        for target, by in zip(x, made.cpu(), strict=True):
            for source, part in zip(x, by.split([len(images) for images in x.values()]), strict=True):
                yield (source, target), part


def _by_exchange(trained: Trained, learned_from: Shown, x: Shown, _: Shown) -> Pairs:
    """z of an image by its client's encoder; c of a training image of the target's, and the decoder, by its own.

    Of a test image c would hold what the translation is measured against.
    """
    models = dict(zip(x, trained.personal_models[:: trained.spec.data.clients_per_style], strict=True))
    z_of, c_of = (
        {name: looked_at(posteriors, model, shown[name])[code] for name, model in models.items()}
        for code, shown in (("z", x), ("c", learned_from))
    )
    for a in x:
        for b, model in models.items():
            z, c = z_of[a], c_of[b]
            draw = torch.randint(len(c), (len(z),), generator=trained.stream("comparable", "exchange", a, b))
            yield (a, b), images_from(model, z, c[draw])


def _counterparts(trained: Trained, styles: dict[str, int], rows: Shown) -> Iterator[tuple[str, str, Tensor]]:
    """Where styles show the same images in ways of their own: what those of a source look like in a target."""
    dealt, sources = trained.dealt, trained.spec.data.styles
    for a, style in styles.items():
        for b, other in styles.items():
            if dealt.style_views is not None:
                yield a, b, trained.of_style(other, rows[a])
            elif trained.spec.data.paired and sources[a] == sources[b]:
                place = torch.searchsorted(dealt.test[style], rows[a])
                yield a, b, trained.of_style(other, dealt.test[other][place])


# ---- by the names that a specification asks for them by (`abilities`)

NUMBERS = {"codes": codes, "answers": answers}
IMAGES = {"generation": asked, "translation": translated}
"""What goes into features.npz, and into samples.npz."""
