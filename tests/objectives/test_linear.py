"""PaDPaF's models of points in the plane; training them is `diptych/test_simpson.py`'s."""

import torch

from diptych.simpson import for_points
from objectives.linear import LinearGAN
from tests.networks.sizes import parameters


def test_the_linear_gan_has_the_features_that_the_paper_names():
    """App. C.1: 16 for content and 2 for style, of points in the plane; latents are numbers."""
    made = for_points(LinearGAN, latent=1).model()
    for part, features in ((made, 16), (made.style, 2)):
        assert part.encoder(torch.zeros(5, 2)).shape == (5, features)
        assert parameters(part.encoder) == features * (2 + 1)
        assert parameters(part.head) == features + 1
        assert parameters(part.projector) == features * (features + 1), "a map, and a batch norm that learns nothing"
        projected = part.projector(torch.randn(50, features, generator=torch.Generator().manual_seed(0)))
        torch.testing.assert_close(projected.mean(dim=0), torch.zeros(features), rtol=0, atol=1e-5)
    assert parameters(made.generator) == parameters(made.style.vectoriser) == 2 * (1 + 1)
