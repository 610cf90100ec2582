"""One torch thread, as in every job: more would only get in each other's way, and change sums in the last digit."""

import torch

torch.set_num_threads(1)
