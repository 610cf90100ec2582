"""The channel: the only way anything passes between a client and the server."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

Direction = Literal["down", "up"]


@dataclass(frozen=True)
class Message:
    """What crossed: to (`down`) or from (`up`) each of `clients` in one round.

    `tensors` have a leading axis over `clients` when they go up; all clients get the same tensors when they go down.
    """

    round: int
    direction: Direction
    clients: tuple[int, ...]
    tensors: dict[str, Tensor]


class Channel:
    """Passes tensors on, counts their bytes, and shows every message to its listeners.

    Attributes:
        traffic: bytes by (round, client, direction, tensor name), counted on the tensors that crossed.
    """

    def __init__(self, listeners: Iterable[Callable[[Message], None]] = ()) -> None:
        self.listeners: tuple[Callable[[Message], None], ...] = tuple(listeners)
        self.traffic: Counter[tuple[int, int, Direction, str]] = Counter()

    def down(self, round: int, clients: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The server sends every client in `clients` the same tensors."""
        sizes = {name: tensor.nbytes for name, tensor in tensors.items()}
        return self._pass(Message(round, "down", tuple(clients), tensors), sizes)

    def up(self, round: int, clients: list[int], tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Each of `clients` sends its row of every tensor (len(clients), *shape)."""
        sizes = {name: tensor.nbytes // len(clients) for name, tensor in tensors.items()}
        return self._pass(Message(round, "up", tuple(clients), tensors), sizes)

    def up_in_turn(
        self, round: int, clients: list[int], uploads: Iterable[dict[str, Tensor]]
    ) -> Iterator[dict[str, Tensor]]:
        """Each of `clients` sends its tensors, one after the other; what arrives, as it comes.

        Whoever listens hears all of it in one message, a row for each client, which is put together for nobody else.
        """
        rows: dict[str, Tensor] = {}
        sizes: dict[str, int] = {}
        for row, upload in enumerate(uploads):
            sizes = {name: tensor.nbytes for name, tensor in upload.items()}
            for name, tensor in upload.items() if self.listeners else ():
                rows.setdefault(name, tensor.new_empty(len(clients), *tensor.shape))[row] = tensor
            yield upload
        if sizes:
            self._pass(Message(round, "up", tuple(clients), rows), sizes)

    def _pass(self, message: Message, sizes: dict[str, int]) -> dict[str, Tensor]:
        for name, size in sizes.items():
            for client in message.clients:
                self.traffic[message.round, client, message.direction, name] += size
        for listener in self.listeners:  # a copy: what was sent must not change when the sender trains on
            listener(replace(message, tensors={name: tensor.clone() for name, tensor in message.tensors.items()}))
        return message.tensors

    def total(self, direction: Direction) -> int:
        """Bytes that crossed in one direction so far."""
        return sum(size for (_, _, way, _), size in self.traffic.items() if way == direction)
