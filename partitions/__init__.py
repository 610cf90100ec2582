"""Sources of labelled images, and the rules that deal them out to clients."""

from partitions.deal import PARTITIONS
from partitions.marks import MARKS
from partitions.partition import Partition
from partitions.partitioning import partition
from partitions.source import Source
from partitions.sources import SOURCES, load
from partitions.views import VIEWS, redrawn

__all__ = ["MARKS", "PARTITIONS", "SOURCES", "VIEWS", "Partition", "Source", "load", "partition", "redrawn"]
