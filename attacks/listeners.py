"""Who listens to a run, as its specification says."""

from attacks.discriminators import Discriminators
from attacks.inversion import Inversion
from attacks.membership import Membership
from attacks.projections import Projections
from attacks.weights import Weights
from attacks.wiretap import Wiretap
from common.errors import InputError
from common.spec import InversionSettings, Spec
from federation import Algorithm, nothing
from federation.hooks import Exchanging, pooled


def listeners(spec: Spec, algorithm: Algorithm) -> list[Wiretap]:
    """Everybody who does.

    Raises:
        InputError: what clients send first is to be inverted, and they send nothing, or take steps that are not known.
    """
    found: list[Wiretap] = [Membership()] if spec.samples.members and sends_weights(algorithm) else []
    return found + ([_inverting(spec, spec.inversion, algorithm)] if spec.inversion else [])


def sends_weights(algorithm: Algorithm) -> bool:
    """Whether clients send weights, or publish them."""
    return not pooled(algorithm) and (algorithm.shared is not nothing or bool(_published(algorithm)))


def _published(algorithm: Algorithm) -> list[str]:
    """When: with an `update`, or at the end of a `phase`."""
    phases = algorithm.phases()
    with_updates = ["update" for phase in phases for update in phase.updates if update.publish]
    return with_updates + ["phase" for phase in phases if phase.publish]


def _inverting(spec: Spec, asked: InversionSettings, algorithm: Algorithm) -> Inversion:
    settings = algorithm, spec.training, asked.iterations, spec.seed
    if isinstance(algorithm, Exchanging):
        return Projections(*settings)
    if not sends_weights(algorithm):
        raise InputError(
            f"inversion: clients of algorithm '{spec.algorithm['name']}' send nothing that can be inverted"
        )
    optimisers = [u.optimiser or spec.training.optimiser for phase in algorithm.phases() for u in phase.updates]
    one = spec.training.optimiser
    plain = all(o.name == "sgd" and o.lr == one.lr and not o.momentum and not o.weight_decay for o in optimisers)
    if not plain or (spec.data.at_most or spec.training.batch_size + 1) > spec.training.batch_size:
        raise InputError(
            "inversion: needs plain sgd with one learning rate and data.at_most up to training.batch_size, so that "
            "each step is on all images"
        )
    return Discriminators(*settings) if "update" in _published(algorithm) else Weights(*settings)
