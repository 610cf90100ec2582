"""What one client minimises on one batch. An objective is built on an encoder and knows nothing of federation."""

from objectives.autoencoder import Autoencoder
from objectives.classification import Classification
from objectives.contrastive import Contrastive, SimCLR, SimSiam
from objectives.gan import GAN
from objectives.generative import Generative
from objectives.objective import Objective
from objectives.stargan import StarGAN
from objectives.vae import BetaVAE

OBJECTIVES: dict[str, type[Objective]] = {
    "autoencoder": Autoencoder,
    "classification": Classification,
    "simclr": SimCLR,
    "simsiam": SimSiam,
    "gan": GAN,
    "vae": BetaVAE,
    "stargan": StarGAN,
}

__all__ = [
    "GAN",
    "OBJECTIVES",
    "Autoencoder",
    "BetaVAE",
    "Classification",
    "Contrastive",
    "Generative",
    "Objective",
    "SimCLR",
    "SimSiam",
    "StarGAN",
]
