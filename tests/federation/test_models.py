"""Copies of models."""

import copy

import torch
from torch import nn

from federation import copied
from federation.population import Population
from networks.spectral import SNLinear


def _model() -> nn.Module:
    model = nn.Sequential(SNLinear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 4))
    model.again = model[3]  # one module at two places
    model.tied = nn.Linear(4, 4)
    model.tied.weight = model[3].weight  # one tensor in two modules
    model[3].bias.requires_grad_(False)
    model.sizes = [3, 4]
    model.parts = [model[3]]  # no module of its own, though one that the model has
    return model


def test_a_copy_is_what_deepcopy_makes():
    model = _model().eval()
    ours, reference = copied(model), copy.deepcopy(model)
    assert ours.state_dict().keys() == reference.state_dict().keys()
    for (name, a), b in zip(
        ours.state_dict(keep_vars=True).items(), reference.state_dict(keep_vars=True).values(), strict=True
    ):
        assert torch.equal(a, b), name
        assert type(a) is type(b), name
        assert a.requires_grad == b.requires_grad, name
        assert a.stride() == b.stride(), name
    assert vars(ours).keys() == vars(reference).keys()
    assert not ours[1].training
    x = torch.randn(5, 3)
    assert torch.equal(ours(x), reference(x))


def test_a_copy_shares_nothing_with_its_model_but_all_that_the_model_shares_with_itself():
    model = _model()
    ours = copied(model)
    assert ours.again is ours[3]
    assert ours.tied.weight is ours[3].weight
    assert ours.parts[0] is ours[3]
    assert ours.sizes is not model.sizes
    before = [t.clone() for t in model.state_dict().values()]
    with torch.no_grad():
        for tensor in ours.state_dict().values():
            tensor.add_(1)
    ours[2].register_forward_hook(lambda *_: 1 / 0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.state_dict().values(), strict=True))
    model(torch.randn(5, 3))


def test_what_has_been_copied_already_is_not_copied_again():
    model = _model()
    known = nn.Linear(4, 4)
    ours = copied(model, {id(model[3]): known, id(model[0].bias): known.bias})
    assert ours[3] is ours.again is known
    assert ours[0].bias is known.bias


def test_a_copy_of_a_member_does_not_take_the_others_along():
    members = Population(_model(), 100, _model().state_dict()).members
    assert copied(members[0])[3].weight.untyped_storage().nbytes() == 4 * 4 * 4
