"""Looking at a model: in evaluation mode, batch by batch, and as if nobody had looked."""

import copy

import torch

from abilities.trained import looked_at
from networks import Conv3


def test_a_look_is_in_evaluation_mode_and_leaves_no_trace():
    torch.manual_seed(0)
    model = Conv3(channels=3, image_size=8, width=4).train()
    x = torch.randint(0, 256, (30, 3, 8, 8), dtype=torch.uint8)
    model(x.float() / 255)  # statistics that are not the initial ones
    before = copy.deepcopy(model.state_dict())
    with torch.no_grad():
        expected = copy.deepcopy(model).eval()(x.float() / 255)

    def look(model, x, y):
        return {"features": model(x), "y": y}

    found = looked_at(look, model, x, torch.arange(30), size=7)
    torch.testing.assert_close(found["features"], expected)
    assert found["y"].tolist() == list(range(30))
    assert not found["features"].requires_grad
    assert model.training
    assert not looked_at(look, model.eval(), x, torch.arange(30))["features"].isnan().any()
    assert not model.training, "as it was"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
