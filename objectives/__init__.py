"""What one client minimises on one batch. An objective is built on an encoder and knows nothing of federation."""

from objectives.classification import Classification
from objectives.contrastive import Contrastive, SimCLR, SimSiam
from objectives.objective import Objective

OBJECTIVES: dict[str, type[Objective]] = {
    "classification": Classification,
    "simclr": SimCLR,
    "simsiam": SimSiam,
}

__all__ = ["OBJECTIVES", "Classification", "Contrastive", "Objective", "SimCLR", "SimSiam"]
