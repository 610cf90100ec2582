"""The channel's books, by hand."""

import torch

from federation.channel import Channel, Message


def test_bytes_are_booked_by_round_client_direction_and_name():
    """Down, each client gets the whole tensor; up, each sends its row. What crosses again adds up."""
    channel = Channel()
    channel.down(1, [0, 2], {"w": torch.zeros(5), "b": torch.zeros(3, dtype=torch.float64)})
    channel.up(1, [0, 2], {"w": torch.zeros(2, 5)})
    for _ in range(2):
        channel.up(2, [1], {"n": torch.zeros(1, dtype=torch.long)})
    w, b = {(1, k, "down", "w"): 20 for k in (0, 2)}, {(1, k, "down", "b"): 24 for k in (0, 2)}
    assert channel.traffic == w | b | {(1, k, "up", "w"): 20 for k in (0, 2)} | {(2, 1, "up", "n"): 16}
    assert all(isinstance(size, int) for size in channel.traffic.values())
    assert (channel.total("down"), channel.total("up")) == (2 * 20 + 2 * 24, 2 * 20 + 16)


def test_every_listener_gets_a_copy_and_the_receiver_what_was_sent():
    heard: list[list[Message]] = [[], []]
    channel, sent = Channel([messages.append for messages in heard]), {"w": torch.ones(2, 3)}
    assert channel.up(4, [1, 3], sent)["w"] is sent["w"]
    sent["w"].zero_()
    for (message,) in heard:
        assert (message.round, message.direction, message.clients) == (4, "up", (1, 3))
        assert message.tensors["w"].all()


def test_what_is_sent_in_turn_is_booked_and_heard_as_what_is_sent_at_once():
    """Also if a sender's tensors are another's when it is that one's turn."""
    rows = {"w": torch.arange(6.0).view(2, 3), "b": torch.arange(2.0)}
    heard: list[Message] = []
    at_once, in_turn = Channel([heard.append]), Channel([heard.append])
    at_once.up(4, [1, 3], rows)
    one = {name: tensor[0].clone() for name, tensor in rows.items()}

    def turns():
        for row in range(2):
            for name, tensor in rows.items():
                one[name].copy_(tensor[row])
            yield one

    for row, arrived in enumerate(in_turn.up_in_turn(4, [1, 3], turns())):
        assert all(torch.equal(arrived[name], tensor[row]) for name, tensor in rows.items())
    assert list(in_turn.traffic.items()) == list(at_once.traffic.items())
    expected, message = heard
    assert (message.round, message.direction, message.clients) == (4, "up", (1, 3))
    assert list(message.tensors) == list(expected.tensors)
    assert all(torch.equal(message.tensors[name], tensor) for name, tensor in expected.tensors.items())


def test_nobody_hears_of_nothing():
    heard: list[Message] = []
    channel = Channel([heard.append])
    assert list(channel.up_in_turn(1, [0, 1], [{}, {}])) == [{}, {}]
    assert not heard
    assert not channel.traffic
