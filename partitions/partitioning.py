"""From settings to clients: sources are loaded, split, dealt out, and narrowed, in this order."""

from common.errors import InputError, choose
from common.spec import DataSettings
from partitions.narrowed import with_at_most, with_dealt_tests, with_some_classes
from partitions.partition import Partition
from partitions.pools import own, together
from partitions.validation import with_validation


def partition(settings: DataSettings, root: str, seed: int) -> Partition:
    """Load the sources, split them into training and test images and deal the former out to clients.

    All that is random depends on `seed`, style (or source, where domains are paired) and client alone.

    Raises:
        InputError: a source cannot be had or read, the styles do not have the same classes, or the deal's settings
            do not fit.
    """
    _refuse(settings)
    if settings.validation_share:  # whose test images nobody sees
        settings = settings.model_copy(update={"styles": {s: settings.styles[s] for s in settings.seen}})
    dealt = together(settings, root, seed) if settings.pool == "together" else own(settings, root, seed)
    if settings.classes_per_client < 1:
        dealt = with_some_classes(dealt, settings.classes_per_client, seed)
    if settings.test_images == "dealt" and not settings.attributes and not settings.validation_share:
        dealt = with_dealt_tests(dealt, seed)
    if settings.at_most is not None:
        dealt = with_at_most(dealt, settings.at_most, seed)
    return with_validation(dealt, settings, seed) if settings.validation_share else dealt


def _refuse(settings: DataSettings) -> None:
    """InputError where keys do not fit each other, before anything is loaded."""
    for key in ("views", "attributes", "marks", "rotations", "label_shift", "unseen"):
        for style in getattr(settings, key):
            choose(f"data.{key}", style, settings.styles)
    if settings.pool == "together":
        for key in ("marks", "rotations", "per_class", "label_shift", "unseen"):
            if getattr(settings, key):
                raise InputError(f"data.{key}: with pool 'together' all styles show the same images; see data.pool")
    if settings.attributes and settings.pool == "own":
        raise InputError("data.attributes: clients hold images by attribute with pool 'together'; see data.pool")
    if settings.attributes and settings.classes_per_client < 1:
        raise InputError("data.classes_per_client: clients that hold images by attribute keep all classes")
    if not settings.seen:
        raise InputError(f"data.unseen: must leave a style for clients, got all {len(settings.styles)}")
    if settings.drawn_in > 1 and (settings.per_class is None or settings.per_class % settings.drawn_in):
        per_class = "null" if settings.per_class is None else settings.per_class
        raise InputError(f"data.drawn_in: must divide data.per_class, which is {per_class}, got {settings.drawn_in}")
