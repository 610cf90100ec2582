"""The engine: clients as a tensor axis, rounds, the channel, checkpoints. Knows no paper and no data set."""

from common.settings import settings
from federation.algorithm import Algorithm, Batch, Objective, Phase, Update, Work, sq_distance
from federation.captured import CapturedSimulation
from federation.channel import Channel, Message
from federation.data import ClientData, View
from federation.functional import call_with
from federation.hooks import Exchange, Listener, ServerWork, ServerWorkSettings, require
from federation.local import Diverged
from federation.mapped import MappedSimulation
from federation.models import copied, twins, zeros_like
from federation.names import Names, anywhere, batch_norm, everything, names, nothing
from federation.server_work import train_on
from federation.simulation import Simulation

__all__ = [
    "Algorithm",
    "Batch",
    "CapturedSimulation",
    "Channel",
    "ClientData",
    "Diverged",
    "Exchange",
    "Listener",
    "MappedSimulation",
    "Message",
    "Names",
    "Objective",
    "Phase",
    "ServerWork",
    "ServerWorkSettings",
    "Simulation",
    "Update",
    "View",
    "Work",
    "anywhere",
    "batch_norm",
    "call_with",
    "copied",
    "everything",
    "names",
    "nothing",
    "require",
    "settings",
    "sq_distance",
    "train_on",
    "twins",
    "zeros_like",
]
