"""Inversion of published discriminators: it succeeds where no unit is dropped, and fails where some are."""

import pytest
import torch

from attacks.discriminators import Discriminators
from networks.cgan import Generator
from tests.attacks.overheard import LABELS, Overheard, images, objective
from tests.mutation import mutated

SMALL = {"latent": 8, "width": 8, "synthetic": 10}


def _overheard(n: int = 1, dropout: float = 0.0, name: str = "ps-fedgan") -> Overheard:
    x, y = images(n), LABELS[:n]
    return Overheard(Discriminators, name, objective(), x, y, dropout=dropout, **SMALL)


@pytest.mark.parametrize("name", ["ps-fedgan", "full-gan"])
def test_an_image_and_its_label_come_back(name):
    run = _overheard(name=name)
    near, labels = run.found()
    assert (near >= 30).all()
    assert labels is not None
    assert labels.tolist() == [7]
    assert (run.misled() < 15).all()


def test_not_if_units_are_dropped_that_nobody_else_knows():
    assert (_overheard(dropout=0.3).found()[0] < 25).all()


def test_not_if_made_images_are_those_of_another_secret():
    run = _overheard()
    run.begun[0] = run.begun[1]
    assert (run.found()[0] < 30).all()


def test_a_step_the_wrong_way_is_caught():
    with mutated("attacks.discriminators", "Discriminators", "p.detach() - self", "-p.detach() + self") as mutant:
        run = Overheard(mutant, "ps-fedgan", objective(), images(1), LABELS[:1], dropout=0.0, **SMALL)
        assert (run.found()[0] < 15).all()


def test_shares_of_classes_are_embedded_as_classes_are():
    generator, z, labels = Generator(1, 8, 10, latent=8, width=8), torch.randn(4, 8), torch.tensor([3, 1, 9, 0])
    shares = torch.nn.functional.one_hot(labels, 10).float()
    torch.testing.assert_close(generator(z, shares), generator(z, labels))
