"""Full GAN sharing, PS-FedGAN's upper reference: users send their generators as they are."""

from typing import Literal

from federation import settings
from methods.ps_fedgan import PSFedGAN


@settings
class FullGAN(PSFedGAN):
    """PS-FedGAN without its protocol (Fig. 1, left); at the end of a round a user also says which labels it has, as
    PS-FedGAN's users do with l.

    Attributes:
        share: generator and discriminator in `all` steps, or the generator alone, `once` in a round.
    """

    share: Literal["all", "once"] = "all"
