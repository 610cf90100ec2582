"""From a trained algorithm to arrays: what it is able to do, and what each ability leaves in a run's folder.

Called abilities, and not extraction, because everything here is asked of an algorithm by what it can do (code an image,
generate one, translate one, classify one) and never by the paper that it comes from; because evaluations of these
arrays ask the same; and because extraction is a phase of FedStyle's, an extractor is a network of the Fréchet
distance's, and `diptych extract` makes the table of a figure.

`registry.ABILITIES` says who has which ability and which arrays it leaves; `trained.Trained` is how all of them look at
models and images.
"""

from abilities.registry import ABILITIES, Ability, arrays, looks_at_own
from abilities.scoring import COLUMNS, due, scores
from abilities.trained import Arrays, Trained

__all__ = ["ABILITIES", "COLUMNS", "Ability", "Arrays", "Trained", "arrays", "due", "looks_at_own", "scores"]
