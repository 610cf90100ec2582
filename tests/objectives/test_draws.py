"""All that is random about a batch comes from its generator, whatever the objective's settings make of it."""

import pytest
import torch

from common.spec import OptimiserSettings
from objectives import cgan
from tests.digits import objective
from tests.objectives.test_cgan import _gan

SETTINGS = [
    ("gan", {"conditional": True}),
    ("vae", {"conditional": True}),
    ("stargan", {"targets": "uniform"}),
    ("stargan", {"targets": "permuted"}),
    ("simclr", {}),
]


def _tensors(batch) -> dict[str, torch.Tensor]:
    pairs = ((key, value if isinstance(value, tuple) else (value,)) for key, value in batch.items())
    return {f"{key}/{n}": tensor for key, tensors in pairs for n, tensor in enumerate(tensors)}


def check_draw(draw, given: set[str]) -> None:
    """The same again from the same generator; with another one everything is another, but what was given."""

    def drawn(seed: int) -> dict[str, torch.Tensor]:
        torch.seed()
        return _tensors(draw(torch.Generator().manual_seed(seed)))

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert {key for key in first if torch.equal(first[key], other[key])} == given


@pytest.mark.parametrize(("name", "settings"), SETTINGS)
def test_a_batch_is_its_generators(name, settings):
    made, x, y = objective(name, **settings), torch.rand(16, 3, 8, 8), torch.arange(16) % 10
    given = {"x/0"} | ({"y/0"} if name in ("gan", "vae", "simclr") else set())
    check_draw(lambda generator: made.draw(x, y, generator), given)


def test_a_batch_of_a_conditional_gan_is_its_generators():
    _, shape, x, y = _gan(dropout=0.5)
    check_draw(lambda generator: cgan.drawn(x, y, shape, generator), {"x/0", "y/0"})
    alone = cgan.alone(shape, OptimiserSettings(), epochs=1.0).draw
    check_draw(lambda generator: alone(x, y, generator), {"x/0", "y/0"})
