"""From a specification to objects: the one place that knows every registry."""

import importlib
from collections.abc import Callable
from typing import Any

from torch import nn

from common.algorithms import algorithm_module
from common.errors import InputError, choose
from common.settings import checked
from common.spec import Named, Spec
from federation import Algorithm
from networks import ENCODERS
from objectives import OBJECTIVES, Objective
from objectives.stargan import StarGAN


def algorithm_class(name: str) -> type[Algorithm]:
    """The algorithm of this name: the one subclass of Algorithm that its file defines.

    Raises:
        InputError: there is no such file, or it does not define exactly one.
    """
    module = importlib.import_module(algorithm_module(name))
    kinds = [x for x in vars(module).values() if isinstance(x, type) and issubclass(x, Algorithm)]
    defined = [kind for kind in kinds if kind.__module__ == module.__name__]
    if len(defined) != 1:
        raise InputError(f"{module.__file__}: must define one Algorithm, defines {len(defined)}")
    return defined[0]


def _split(section: str, named: Named) -> tuple[str, dict[str, Any]]:
    if "name" not in named:
        raise InputError(f"{section}.name: this key is needed and not given")
    return str(named["name"]), {key: value for key, value in named.items() if key != "name"}


def encoder_factory(spec: Spec) -> Callable[..., nn.Module]:
    """Makes encoders for the specification's images; keywords replace settings of the network."""
    name, settings = _split("network", spec.network)
    kind = ENCODERS[choose("network.name", name, ENCODERS)]
    data = {"channels": spec.data.channels, "image_size": spec.data.image_size}
    return lambda **changes: checked(kind, "network", settings | changes, **data)


def build_objective(spec: Spec, classes: int) -> Objective:
    """The specification's objective for data with this many classes.

    Raises:
        InputError: a setting is wrong, or does not go with the styles.
    """
    name, settings = _split("objective", spec.objective)
    kind = OBJECTIVES[choose("objective.name", name, OBJECTIVES)]
    data = {"channels": spec.data.channels, "image_size": spec.data.image_size}
    objective = checked(kind, "objective", settings, encoder=encoder_factory(spec), classes=classes, **data)
    if isinstance(objective, StarGAN):
        _refuse_unknown_domains(spec, objective)
    return objective


def _refuse_unknown_domains(spec: Spec, objective: StarGAN) -> None:
    """Which would show when the first client that is beyond has its turn."""
    if spec.data.pool == "together":
        raise InputError("data.pool: StarGAN learns from the style of each image; with 'together' images have none")
    trained = 1 + max(n for n, style in enumerate(spec.data.styles) if style not in spec.data.unseen)
    if trained > objective.domains:
        raise InputError(f"objective.domains: there are {trained} styles, got {objective.domains}")


def build_algorithm(spec: Spec, classes: int) -> Algorithm:
    """The specification's algorithm on its objective."""
    name, settings = _split("algorithm", spec.algorithm)
    return checked(algorithm_class(name), "algorithm", settings, objective=build_objective(spec, classes))
