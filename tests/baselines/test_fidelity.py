"""Every baseline against an answer by hand: two rounds, three local steps, three tensors, unequal clients."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from baselines.apfl import APFL
from baselines.centralized import Centralized
from baselines.ditto import Ditto
from baselines.ditto_fedprox import DittoFedProx
from baselines.fedavg import FedAvg
from baselines.fedavg_ft import FedAvgFT
from baselines.fedper import FedPer
from baselines.fedprox import FedProx
from baselines.fedrep import FedRep
from common.errors import InputError
from common.settings import checked
from common.spec import OptimiserSettings
from tests.digits import few, objective, prepared
from tests.digits import simulate as simulate_digits
from tests.quadratic import (
    CURVATURE,
    LR,
    SHAPES,
    SIZES,
    START,
    Comparison,
    Quadratic,
    Tensors,
    average,
    centres,
    descend,
    pooled,
    simulate,
)

ROUNDS, STEPS = 2, 3
C = centres()
BODY, HEAD = ["encoder.a", "encoder.b"], ["head.c"]


def fedavg_by_hand(
    names: list[str] | None = None, pull: float = 0.0, steps: int = STEPS
) -> tuple[Tensors, list[Tensors]]:
    """The server's tensors and each client's last own, when clients descend from w, pulled back to it by `pull`."""
    server: Tensors = {}
    clients: list[Tensors] = [{} for _ in SIZES]
    for name in names or list(SHAPES):
        w = START[name]
        for _ in range(ROUNDS):
            parts = [descend(w, c[name], CURVATURE[name], steps, pull, w) for c in C]
            w = average(parts)
        server[name] = w
        for client, part in zip(clients, parts, strict=True):
            client[name] = part
    return server, clients


def local_by_hand(names: list[str], steps: int) -> list[Tensors]:
    """Each client's tensors when nobody ever overwrites them."""
    return [{n: descend(START[n], c[n], CURVATURE[n], steps) for n in names} for c in C]


def prefixed(prefix: str, tensors: Tensors) -> Tensors:
    return {f"{prefix}.{name}": value for name, value in tensors.items()}


def check_fedavg(kind: type = FedAvg) -> None:
    server, clients = fedavg_by_hand()
    found = Comparison(simulate(kind(objective=Quadratic())))
    found.server(server)
    found.clients(clients)


def check_uniform(kind: type = FedAvg) -> None:
    """One round with equal weights: the plain mean of the three."""
    found = Comparison(simulate(kind(objective=Quadratic()), rounds=1, weighting="uniform"))
    found.server({n: np.mean([descend(START[n], c[n], CURVATURE[n], STEPS) for c in C], axis=0) for n in SHAPES})


def check_fedprox(kind: type = FedProx) -> None:
    server, clients = fedavg_by_hand(pull=0.8)
    found = Comparison(simulate(kind(objective=Quadratic(), mu=0.8)))
    found.server(server)
    found.clients(clients)


def check_fedprox_as_fedstyle_reads_it(kind: type = FedProx) -> None:
    """w_k is never overwritten: it goes on from where it was, pulled to what was received, and is averaged."""
    server: Tensors = {}
    for name in SHAPES:
        w, own = START[name], [START[name]] * 3
        for _ in range(ROUNDS):
            own = [descend(p, c[name], CURVATURE[name], STEPS, 0.8, w) for p, c in zip(own, C, strict=True)]
            w = average(own)
        server[name] = w
    Comparison(simulate(kind(objective=Quadratic(), mu=0.8, reading="fedstyle"))).server(server)


def check_ditto(kind: type = Ditto, reading: str = "canonical", pull: float = 0.0) -> None:
    """w as in FedAvg, or FedProx; v goes on from where it was, pulled to the w that was received. In halves of three
    epochs both take two steps."""
    steps = 2 if reading in ("padpaf", "released") else STEPS
    server, _ = fedavg_by_hand(steps=steps, pull=pull)
    personal: list[Tensors] = [{} for _ in SIZES]
    for name in SHAPES:
        w, vs = START[name], [START[name]] * 3
        for _ in range(ROUNDS):
            trained = [descend(w, c[name], CURVATURE[name], steps, pull, w) for c in C]
            to = trained if reading == "fedstyle" else [w] * 3
            vs = [w] * 3 if reading == "released" else vs
            vs = [descend(v, c[name], CURVATURE[name], steps, 1.7, t) for v, c, t in zip(vs, C, to, strict=True)]
            w = average(trained)
        for client, v in zip(personal, vs, strict=True):
            client[f"v.{name}"] = v
    of_global = {"mu_global": pull} if pull else {}
    found = Comparison(simulate(kind(objective=Quadratic(), mu=1.7, reading=reading, **of_global)))
    found.server(prefixed("w", server))
    found.clients(personal)


def check_ditto_as_fedstyle_reads_it(kind: type = Ditto) -> None:
    """v is pulled to the w that its client has just trained, which is a constant while v moves."""
    check_ditto(kind, reading="fedstyle")


def check_ditto_in_halves(kind: type = Ditto) -> None:
    """v goes on from where it was, as PaDPaF says; or starts each round as the w that was received, as its code."""
    for reading in ("padpaf", "released"):
        check_ditto(kind, reading)


def check_ditto_with_fedprox(kind: type = DittoFedProx) -> None:
    """w is pulled to the w that was received as well, with a weight of its own."""
    check_ditto(kind, pull=0.8)


def check_fedper(kind: type = FedPer) -> None:
    server, _ = fedavg_by_hand(BODY)
    found = Comparison(simulate(kind(objective=Quadratic())))
    found.server(server)
    found.clients(local_by_hand(HEAD, ROUNDS * STEPS))


def check_fedrep(kind: type = FedRep) -> None:
    """The head takes three steps a round and stays, the body one and is averaged."""
    server, _ = fedavg_by_hand(BODY, steps=1)
    found = Comparison(simulate(kind(objective=Quadratic())))
    found.server(server)
    found.clients(local_by_hand(HEAD, ROUNDS * STEPS))


@pytest.mark.parametrize("reading", ["canonical", "fedstyle"])
def test_fedreps_head_comes_first_on_the_body_that_was_received(reading):
    """A step on each: the head's gradient by the first body, and the body's by the new head. Quadratics cannot tell."""
    made, one = FedRep(objective=objective("classification"), reading=reading), few(1, images=40)
    steps = {"rounds": 1, "batch_size": 40, "local_epochs": 1, "optimiser": OptimiserSettings(lr=0.5)}
    simulation = prepared(made, one, **steps)
    m = copy.deepcopy(simulation.template)
    x, y = (part[one.clients[0]] for part in (one.images, one.labels))
    for part in (m.head, m.encoder):
        leaves = list(part.parameters())
        gradients = torch.autograd.grad(F.cross_entropy(m.head(m.encoder(x / 255)), y), leaves)
        with torch.no_grad():
            for leaf, gradient in zip(leaves, gradients, strict=True):
                leaf -= 0.5 * gradient
    simulation.run()
    for name, tensor in m.named_parameters():
        torch.testing.assert_close(simulation.own(0).get_parameter(name), tensor)


def check_fedrep_as_fedstyle_reads_it(kind: type = FedRep) -> None:
    server, _ = fedavg_by_hand(BODY)
    simulation = simulate(kind(objective=Quadratic(), reading="fedstyle"))
    Comparison(simulation).server(server)
    Comparison(simulation).clients(local_by_hand(HEAD, ROUNDS * STEPS))
    assert simulation.done == ROUNDS * 3 * 2 * STEPS  # twice the budget of FedAvg


def apfl_by_hand(of_v: float) -> list[Tensors]:
    """v <- v - lr * a * h * (a v + (1 - a) w - c) with a = `of_v`, and w as in FedAvg, from before the batch."""
    personal: list[Tensors] = [{} for _ in SIZES]
    for name in SHAPES:
        h, w_global = CURVATURE[name], START[name]
        vs = [START[name]] * 3
        for _ in range(ROUNDS):
            ws = []
            for k, c in enumerate(C):
                w, v = w_global, vs[k]
                for _ in range(STEPS):
                    slope = h * (of_v * v + (1 - of_v) * w - c[name])
                    w, v = w - LR * h * (w - c[name]), v - LR * of_v * slope
                ws.append(w)
                vs[k] = v
            w_global = average(ws)
        for client, v in zip(personal, vs, strict=True):
            client[f"v.{name}"] = v
    return personal


def check_apfl(kind: type = APFL) -> None:
    """Weights are mixed, alpha on v's side."""
    server, _ = fedavg_by_hand()
    found = Comparison(simulate(kind(objective=Quadratic(), alpha=0.3)))
    found.server(prefixed("w", server))
    found.clients(apfl_by_hand(of_v=0.3))


def check_apfl_as_fedstyle_reads_it(kind: type = APFL) -> None:
    """Outputs are mixed, alpha on w's side."""
    found = Comparison(simulate(kind(objective=Quadratic(), alpha=0.3, reading="fedstyle")))
    found.clients(apfl_by_hand(of_v=1 - 0.3))


@pytest.mark.parametrize("ssl", ["simclr", "simsiam"])
def test_apfl_as_fedstyle_reads_it_trains_the_local_model_on_mixed_projections(ssl):
    """alpha on w's side, through which no gradient flows; a predictor is the local model's."""
    made = objective(ssl)
    algorithm = APFL(objective=made, alpha=0.3, reading="fedstyle")
    model, other = algorithm.model().eval(), made.model().eval()
    model.v.load_state_dict(other.state_dict())
    batch = made.draw(torch.rand(4, 3, 8, 8), torch.arange(4), torch.Generator().manual_seed(0))
    shared, local = ([part.projector(part.encoder(view)) for view in batch["views"]] for part in (model.w, other))
    mixed = [0.3 * g + 0.7 * z for g, z in zip(shared, local, strict=True)]
    loss = algorithm.mixed_outputs_loss(model, batch)
    torch.testing.assert_close(loss, made.criterion(other, mixed, batch))
    loss.backward()
    assert all(p.grad is None for p in model.w.parameters())
    assert all(p.grad is not None for p in model.v.parameters())


def test_apfls_personal_features_are_those_of_the_local_model_or_of_both():
    """In FedStyle's reading (its Personalization: h of the local model); where weights are mixed, of their mixture."""
    x = torch.rand(4, 3, 8, 8)
    made = {"objective": objective("simclr"), "alpha": 0.3}
    (trained, *_) = simulate_digits(APFL(**made, reading="fedstyle"), rounds=1, local_steps=2).population.members
    w, v = (part.eval().encoder(x) for part in (trained.w, trained.v))

    def personal(**settings):
        return APFL(**made, **settings).personal_features(trained, x)["features"]

    assert torch.equal(personal(reading="fedstyle"), v)
    assert torch.equal(personal(reading="fedstyle", features="local"), v)
    torch.testing.assert_close(personal(reading="fedstyle", features="mixture"), 0.3 * w + 0.7 * v)
    mixed = copy.deepcopy(trained.v)
    with torch.no_grad():
        for p, q in zip(mixed.parameters(), trained.w.parameters(), strict=True):
            p.copy_(0.3 * p + 0.7 * q)
    for features in ("local", "mixture"):
        torch.testing.assert_close(personal(features=features), mixed.encoder(x))


def test_a_mixture_that_would_never_train_the_local_model_is_refused():
    made = {"objective": Quadratic()}
    for reading, alpha in (("fedstyle", 0.999), ("canonical", 1.0)):
        assert checked(APFL, "algorithm", {"reading": reading, "alpha": alpha}, **made).alpha == alpha
    with pytest.raises(InputError, match=r"^algorithm\.alpha: must be less than 1 with reading 'fedstyle', or v is"):
        checked(APFL, "algorithm", {"reading": "fedstyle", "alpha": 1.0}, **made)


def check_fine_tuning(kind: type = FedAvgFT) -> None:
    """All clients, from the final average, for two more epochs."""
    server, _ = fedavg_by_hand()
    found = Comparison(simulate(kind(objective=Quadratic(), fine_tuning_epochs=2)))
    found.server(server)
    found.clients([{n: descend(server[n], c[n], CURVATURE[n], 2) for n in SHAPES} for c in C])


def check_sampled_sizes(kind: type = FedAvg) -> None:
    """Two of three clients in each round, weighted by their own numbers of images."""
    simulation = simulate(kind(objective=Quadratic()), rounds=4, participation=0.67)
    assert any(chosen != [0, 1] for chosen in simulation.schedule)
    server: Tensors = {}
    for name in SHAPES:
        w = START[name]
        for chosen in simulation.schedule:
            ends = [descend(w, C[k][name], CURVATURE[name], STEPS) for k in chosen]
            w = np.average(ends, axis=0, weights=[SIZES[k] for k in chosen])
        server[name] = w
    Comparison(simulation).server(server)


def check_fresh_momentum(kind: type = FedAvg) -> None:
    """Heavy-ball steps b <- 0.5 b + g; b is 0 again at the start of each round."""
    server: Tensors = {}
    for name in SHAPES:
        w_global = START[name]
        for _ in range(ROUNDS):
            ends = []
            for c in C:
                w, b = w_global, 0.0
                for _ in range(STEPS):
                    b = 0.5 * b + CURVATURE[name] * (w - c[name])
                    w = w - LR * b
                ends.append(w)
            w_global = average(ends)
        server[name] = w_global
    Comparison(simulate(kind(objective=Quadratic()), momentum=0.5, optimiser_state="round")).server(server)


def check_persistent_momentum(kind: type = Ditto) -> None:
    """Heavy-ball steps b <- 0.5 b + g; every client keeps its own b for w and for v over both rounds."""
    mu, beta = 1.7, 0.5
    personal: list[Tensors] = [{} for _ in SIZES]
    for name in SHAPES:
        h, w_global = CURVATURE[name], START[name]
        state = [[START[name], 0.0, 0.0] for _ in SIZES]  # v, and the buffers of v and w
        for _ in range(ROUNDS):
            ws = []
            for k, c in enumerate(C):
                w, (v, bv, bw) = w_global, state[k]
                for _ in range(STEPS):
                    bw = beta * bw + h * (w - c[name])
                    bv = beta * bv + h * (v - c[name]) + mu * (v - w_global)
                    w, v = w - LR * bw, v - LR * bv
                ws.append(w)
                state[k] = [v, bv, bw]
            w_global = average(ws)
        for client, (v, _, _) in zip(personal, state, strict=True):
            client[f"v.{name}"] = v
    simulation = simulate(kind(objective=Quadratic(), mu=mu), momentum=beta, optimiser_state="persistent")
    Comparison(simulation).clients(personal)


CHECKS = [
    check_sampled_sizes,
    check_fresh_momentum,
    check_persistent_momentum,
    check_fedavg,
    check_uniform,
    check_fedprox,
    check_fedprox_as_fedstyle_reads_it,
    check_ditto,
    check_ditto_as_fedstyle_reads_it,
    check_ditto_in_halves,
    check_ditto_with_fedprox,
    check_fedper,
    check_fedrep,
    check_fedrep_as_fedstyle_reads_it,
    check_apfl,
    check_apfl_as_fedstyle_reads_it,
    check_fine_tuning,
]


@pytest.mark.parametrize("check", CHECKS)
def test_by_hand(check):
    check()


def test_centralised_training_descends_on_the_mean_of_all_images_and_sends_nothing():
    simulation = simulate(Centralized(objective=Quadratic()), dealt=pooled())
    for name in SHAPES:
        mean = average([c[name] for c in C])
        expected = descend(START[name], mean, CURVATURE[name], ROUNDS * STEPS)
        np.testing.assert_allclose(simulation.population.storage[name][0].numpy(), expected, atol=1e-6)
    assert not simulation.channel.traffic
