"""Sets of tensor names, against the sets of names that they stand for."""

import operator

import pytest
from torch import nn

from federation.names import Names, anywhere, batch_norm, entries, everything, names, nothing, selected


def _model() -> nn.Module:
    """Parts whose names begin alike, one inside of another, with and without batch norm."""
    part = nn.ModuleDict({"head": nn.Linear(2, 2), "norm": nn.BatchNorm1d(2)})
    return nn.ModuleDict({"head": nn.Linear(2, 2), "head2": nn.Linear(2, 2, bias=False), "part": part})


HEAD = {"head.weight", "head.bias"}
INNER_HEAD = {"part.head.weight", "part.head.bias"}
STATISTICS = {"part.norm.running_mean", "part.norm.running_var", "part.norm.num_batches_tracked"}
NORM = {"part.norm.weight", "part.norm.bias"} | STATISTICS
ALL = HEAD | {"head2.weight"} | INNER_HEAD | NORM


def _of(which: Names) -> set[str]:
    return {entry.name for entry in selected(_model(), which)}


@pytest.mark.parametrize(
    ("which", "said"),
    [
        (everything, ALL),
        (nothing, set()),
        (batch_norm, NORM),
        (names("head"), HEAD),  # not what only begins with the name, and not a part of this name elsewhere
        (names("head.bias", "part.norm"), {"head.bias"} | NORM),
        (names("part.head.weight"), {"part.head.weight"}),
        (anywhere("head"), HEAD | INNER_HEAD),
        (anywhere("norm"), NORM),
        (names("head").below("part"), INNER_HEAD),
        (batch_norm.below("part"), NORM),
        (batch_norm.below("head"), set()),
        (everything.below("head"), HEAD),
    ],
)
def test_a_set_contains_the_tensors_that_it_says(which, said):
    assert _of(which) == said


@pytest.mark.parametrize("operation", [operator.or_, operator.and_])
def test_sets_of_names_combine_as_sets(operation):
    """Each of four names is in both, one, the other or none of the two; the module counts as well as the name."""
    for one in (names("part"), batch_norm, anywhere("head")):
        for other in (anywhere("head"), batch_norm, names("head", "part.norm.bias")):
            assert _of(operation(one, other)) == operation(_of(one), _of(other))


def test_the_rest_is_what_a_set_does_not_contain():
    for which in (names("part"), batch_norm, everything):
        assert _of(~which) == ALL - _of(which)


def test_entries_are_the_parameters_and_buffers_of_a_model_each_once():
    model = _model()
    model["again"] = model["head"]
    found = {entry.name: entry for entry in entries(model)}
    assert len(found) == len(list(entries(model)))
    assert {n for n, e in found.items() if e.is_parameter} == {n for n, _ in model.named_parameters()}
    assert {n for n, e in found.items() if not e.is_parameter} == {n for n, _ in model.named_buffers()}
    for entry in found.values():
        assert getattr(entry.owner, entry.leaf) is entry.tensor
