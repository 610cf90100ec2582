"""Which abilities there are, whom each is asked of, and which arrays it leaves."""

from collections.abc import Callable
from dataclasses import dataclass

from abilities.codes import discriminated, inferred
from abilities.comparable import IMAGES, NUMBERS
from abilities.decoding import decoded, has_decoder
from abilities.features import features
from abilities.generation import generated
from abilities.overheard import followed, inverted, membership, overheard
from abilities.trained import Arrays, Trained
from abilities.translation import controls, restyled, translate_of, translated
from attacks.inversion import Inversion
from attacks.membership import Membership
from common.errors import InputError
from federation.hooks import Restyling, pooled
from objectives import Generative

Extract = Callable[[Trained], Arrays]


# ---- whom it is asked of


def _generates(trained: Trained) -> bool:
    """Images from a latent of content and one of style."""
    return isinstance(trained.objective, Generative)


def _restyles(trained: Trained) -> bool:
    """Images of one client in the style of another, by a procedure of the method's own (PaDPaF, Algorithm 2)."""
    return isinstance(trained.algorithm, Restyling)


def _translates(trained: Trained) -> bool:
    return translate_of(trained.algorithm) is not None


def _is_followed(trained: Trained) -> bool:
    """By a server with a twin of every user's generator, and by whoever listens (PS-FedGAN)."""
    return hasattr(trained.simulation.server_work, "twins")


def _is_inverted(trained: Trained) -> bool:
    return trained.listening(Inversion) is not None


def _is_asked(trained: Trained) -> bool:
    """Whose an image was, by what was last sent."""
    return trained.listening(Membership) is not None


def _encodes(trained: Trained) -> bool:
    """One code of an image, where there is nothing else."""
    return not any(of(trained) for of in (_generates, has_decoder, _translates, _is_followed))


# ---- what is left


@dataclass(frozen=True)
class Ability:
    """What a trained algorithm may be able to do.

    Attributes:
        of: whether this one is.
        features, samples: the arrays that features.npz and samples.npz have of it, and after-<r>.npz both.
        at_the_end: the arrays that only samples.npz has.
        always: whether they are left even if the specification says `features: false`.
        own: whether it looks at clients' models as their last local training left them.
    """

    of: Callable[[Trained], bool]
    features: Extract | None = None
    samples: Extract | None = None
    at_the_end: Extract | None = None
    always: bool = False
    own: bool = False


ABILITIES = {
    "features": Ability(_encodes, features=features, own=True),
    "generation": Ability(_generates, discriminated, generated, always=True, own=True),
    "re-styling": Ability(_restyles, at_the_end=restyled, always=True),
    "two codes": Ability(has_decoder, inferred, decoded, own=True),
    "translation": Ability(_translates, samples=translated, at_the_end=controls),
    "followed": Ability(_is_followed, samples=followed, at_the_end=overheard, own=True),
    "inverted": Ability(_is_inverted, at_the_end=inverted, always=True),
    "asked": Ability(_is_asked, at_the_end=membership, always=True),
}
"""docs/run-folder.md lists the arrays of each."""


def able(trained: Trained) -> dict[str, Ability]:
    """The abilities of which something is left.

    Raises:
        InputError: it generates, and is asked for what each client's generator does where the pool has one.
    """
    if _generates(trained) and pooled(trained.algorithm):
        raise InputError(
            "abilities: a pooled run has no client's generator to be asked by default; name what is wanted, such as "
            "[codes, generation]"
        )
    wanted = trained.spec.features
    return {name: ability for name, ability in ABILITIES.items() if (wanted or ability.always) and ability.of(trained)}


def looks_at_own(trained: Trained) -> bool:
    """Whether something of that is found in clients' models as their last local training left them."""
    if trained.spec.abilities:
        return trained.spec.features
    return any(ability.own for ability in able(trained).values())


def arrays(trained: Trained, *, at_the_end: bool) -> tuple[Arrays, Arrays]:
    """What evaluations need of it as it stands: the arrays of features.npz, and of samples.npz.

    A specification that names `abilities` asks for what can be compared, in the place of what its paper shows.
    """
    if trained.spec.abilities:
        return _comparable(trained) if at_the_end else ({}, {})
    kept: Arrays = {}
    samples: Arrays = {}
    for ability in able(trained).values():
        kept |= ability.features(trained) if ability.features else {}
        samples |= ability.samples(trained) if ability.samples else {}
        samples |= ability.at_the_end(trained) if ability.at_the_end and at_the_end else {}
    return kept, samples


def _comparable(trained: Trained) -> tuple[Arrays, Arrays]:
    """Codes and answers; images; and whatever those who listen make of what they heard, which has keys of its own."""
    kept: Arrays = {}
    samples = (inverted(trained) if _is_inverted(trained) else {}) | (membership(trained) if _is_asked(trained) else {})
    for name in trained.spec.abilities if trained.spec.features else ():
        kept |= NUMBERS[name](trained) if name in NUMBERS else {}
        samples |= IMAGES[name](trained) if name in IMAGES else {}
    return kept, samples
