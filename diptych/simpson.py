"""Simpson's paradox (PaDPaF, Fig. 3 and 9): one regression, federated ones, a router, and the linear GAN."""

import hashlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.linear_model import LinearRegression as OrdinaryLeastSquares
from torch import Tensor, nn

from common.algorithms import algorithm_module
from common.codehash import code_hash
from common.keys import random_key
from common.optimisers import State, step
from common.provenance import provenance, versions
from common.records import COLUMNS
from common.run_folder import write_csv
from common.settings import checked
from common.spec import OptimiserSettings, ServerSettings, TrainingSettings
from diptych.assembly import algorithm_class
from federation import ClientData, MappedSimulation, Simulation
from federation.simulation import initial_model
from objectives.linear import LinearGAN, LinearRegression
from partitions.simpson import simpson

POINTS = ["variant", "panel", "client", "x", "y"]
CASES: dict[str, dict[str, Any]] = {
    "": {},
    "cluttered": {"clutter": 1.0},  # Fig. 9; the paper does not say by how much
    "paper-data": {"reading": "paper"},
}
"""Variant -> how the data are made."""
DIFFERS = {
    "cluttered": "data.clutter",
    "federated": "regressions",
    "linear-regression-private-bias": "training.rounds server.lr",  # 150, and a mean, for the notebook's 50 and 4
    "x-only": "router.input",
}
"""What is not as published of a method, or of a part of a variant."""
Rows = list[dict[str, Any]]


def federated(
    method: str,
    objective: Any,
    points: np.ndarray,
    seed: int,
    settings: TrainingSettings,
    engine: type[Simulation] = MappedSimulation,
) -> Simulation:
    """Federated training on points (clients, n, 2); a client is a row."""
    clients, n, _ = points.shape
    everyone = torch.from_numpy(points.reshape(-1, 2)).float()
    indices = tuple(torch.arange(k * n, (k + 1) * n) for k in range(clients))
    data = ClientData(everyone, torch.arange(clients).repeat_interleave(n), indices)
    simulation = engine(checked(algorithm_class(method), "algorithm", {}, objective=objective), data, settings, seed)
    simulation.keep_own()
    simulation.run()
    return simulation


def for_points(objective: Any, **more: Any) -> Any:
    """Objectives of points need no encoder of images."""
    return objective(encoder=nn.Identity, classes=1, channels=1, image_size=8, **more)


def private_biases(points: np.ndarray, seed: int, rounds: int = 150) -> tuple[float, np.ndarray]:
    """w and b_i of a regression whose weight is federated and whose biases are not (FedPer: the encoder is the weight).

    An epoch a round at a rate of 0.2 and batches of 10, as in the authors' notebook; 150 rounds in place of its 50 with
    a server that moves four times the mean difference. Draws and steps are the engine's, of all clients at once: a step
    on two numbers is nothing but overhead.

    Args:
        points: (clients, n, 2).
    """
    x, y = torch.from_numpy(points).float().unbind(dim=2)
    fedper = checked(algorithm_class("fedper"), "algorithm", {}, objective=for_points(LinearRegression))
    start: Any = initial_model(fedper, seed)
    shared, biases = start.encoder.weight.detach(), torch.zeros(len(x), 1)
    for round in range(1, rounds + 1):
        slopes = shared.repeat(len(x), 1)
        order = torch.stack([_order(seed, round, client, x.shape[1]) for client in range(len(x))])
        for batch in order.split(10, dim=1):
            x_b, y_b = x.gather(1, batch), y.gather(1, batch)
            error = slopes * x_b + biases - y_b
            slopes -= 0.2 * (2 * error * x_b).mean(dim=1, keepdim=True)
            biases -= 0.2 * (2 * error).mean(dim=1, keepdim=True)
        shared = slopes.mean(dim=0, keepdim=True)
    return float(shared), biases.numpy().ravel()


def _order(seed: int, round: int, client: int, points: int) -> Tensor:
    """The order in which a client of the engine takes its points in a round."""
    order = torch.Generator().manual_seed(random_key(seed, "batches", "round", round, client, 0))
    return torch.randperm(points, generator=order)


def own_regressions(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and biases (clients,) of a regression for each client alone (App. C.1).

    By least squares, as the single one, which is the least error that the text's 50 epochs in batches of ten, by an
    optimiser that it does not name, can come to.

    Args:
        points: (clients, n, 2).
    """
    fitted = [OrdinaryLeastSquares().fit(own[:, :1], own[:, 1]) for own in points]
    return np.array([line.coef_[0] for line in fitted]), np.array([line.intercept_ for line in fitted])


def linear_gan(points: np.ndarray, seed: int) -> Simulation:
    """PaDPaF's linear GAN (notebook: SGD 0.1, decay 0.99, batches of 10, 60 rounds of 2 epochs, lambda 0.5)."""
    settings = TrainingSettings(
        rounds=60,
        local_epochs=2,
        batch_size=10,
        lr_decay=0.99,
        optimiser=OptimiserSettings(lr=0.1),
        server=ServerSettings(weighting="uniform"),
        buffers="local",
    )
    return federated("padpaf", for_points(LinearGAN, latent=1, lam=0.5), points, seed, settings)


def router(points: np.ndarray, predictions: np.ndarray, seed: int, *, sees_target: bool) -> float:
    """The error of a mixture of frozen regressions, weighted by a softmax of a linear map, trained for 50 epochs.

    Args:
        points: (n, 2).
        predictions: (n, clients), of each client's regression.
        sees_target: whether the map is given (x, y), as published, which is no prediction, or x alone.
    """
    data, said = torch.from_numpy(points).float(), torch.from_numpy(predictions).float()
    seen = data if sees_target else data[:, :1]
    weight, bias = torch.zeros(said.shape[1], seen.shape[1]), torch.zeros(said.shape[1])
    parameters, state = [weight.requires_grad_(), bias.requires_grad_()], State()
    order = torch.Generator().manual_seed(random_key(seed, "router"))

    def error(rows: Tensor) -> Tensor:
        share = F.softmax(F.linear(seen[rows], weight, bias), dim=1)
        return F.mse_loss((share * said[rows]).sum(dim=1), data[rows, 1])

    for _ in range(50):
        for rows in torch.randperm(len(data), generator=order).split(10):
            gradients = list(torch.autograd.grad(error(rows), parameters))
            step(OptimiserSettings(name="adam", lr=0.1), parameters, gradients, state)
    return error(torch.arange(len(data))).item()


@torch.no_grad()
def _confident(simulation: Simulation, points: np.ndarray, predictions: np.ndarray) -> float:
    """The error when the client whose style discriminator scores (x, its prediction) highest predicts (Sec. 5)."""
    scores = []
    for member, said in zip(simulation.population.members, predictions.T, strict=True):
        m: Any = member.eval()
        candidates = torch.from_numpy(np.stack([points[:, 0], said], axis=1)).float()
        scores.append(m.style.head(m.style.encoder(candidates)))
    chosen = torch.stack(scores, dim=1).argmax(dim=1).numpy()
    return float(np.square(predictions[np.arange(len(points)), chosen] - points[:, 1]).mean())


@torch.no_grad()
def _samples(simulation: Simulation, seed: int, count: int = 50) -> np.ndarray:
    """Generated points (clients, count, 2)."""
    objective, draw = simulation.algorithm.objective, torch.Generator().manual_seed(random_key(seed, "points"))
    made = []
    for member in simulation.population.members:
        m: Any = member
        z_c, z_s = objective.latents(count, draw), objective.latents(count, draw)
        made.append(m.generator(z_c, m.style.vectoriser(z_s), None, ()))
    return torch.stack(made).numpy()


def _lines(variant: str, panel: str, points: np.ndarray, slope: float, biases: np.ndarray) -> Rows:
    """The ends of each client's regression line."""
    rows = []
    for k, (own, bias) in enumerate(zip(points, biases, strict=True)):
        for x in (own[:, 0].min(), own[:, 0].max()):
            rows.append({"variant": variant, "panel": panel, "client": k + 1, "x": x, "y": slope * x + bias})
    return rows


def _cloud(variant: str, panel: str, points: np.ndarray) -> Rows:
    return [
        {"variant": variant, "panel": panel, "client": k + 1, "x": x, "y": y}
        for k, own in enumerate(points)
        for x, y in own
    ]


def case(variant: str, seed: int) -> tuple[dict[tuple[str, str, str], float], Rows]:
    """One data set: (method, variant, metric) -> value, and the points and lines that figures show."""
    points = simpson(random_key(seed, "simpson"), **CASES[variant])
    everyone = points.reshape(-1, 2)
    x, y = everyone[:, :1], everyone[:, 1]
    single = OrdinaryLeastSquares().fit(x, y)
    slope, biases = private_biases(points, seed)
    federated = slope * x + biases  # (points, clients)
    slopes, own_biases = own_regressions(points)
    alone = slopes * x + own_biases
    own = federated[np.arange(len(y)), np.repeat(np.arange(len(points)), points.shape[1])]
    errors = {
        ("linear-regression", "", "mse"): float(np.square(single.predict(x) - y).mean()),
        ("linear-regression", "", "slope"): float(single.coef_[0]),
        ("linear-regression-private-bias", "", "mse"): float(np.square(own - y).mean()),
        ("linear-regression-private-bias", "", "slope"): slope,
        ("linear-regression-routed", "", "mse"): router(everyone, alone, seed, sees_target=True),
        ("linear-regression-routed", "x-only", "mse"): router(everyone, alone, seed, sees_target=False),
        ("linear-regression-routed", "federated", "mse"): router(everyone, federated, seed, sees_target=True),
    }
    line = float(single.coef_[0]), np.full(len(points), single.intercept_)
    rows = _cloud(variant, "data", points) + _lines(variant, "single regression", points, *line)
    rows += _lines(variant, "private biases", points, slope, biases)
    if not variant:  # the one case in which the paper shows the GAN
        gan = linear_gan(points, seed)
        made, content = _samples(gan, seed), gan.server.tensors["generator.linear.weight"].numpy().ravel()
        errors |= {
            ("linear-regression-routed", "most-confident-client", "mse"): _confident(gan, everyone, federated),
            ("padpaf", "", "slope"): float(content[1] / content[0]),
            ("padpaf", "", "mean_distance"): _mean_distance(made, points),
        }
        rows += _cloud(variant, "generated", made)
    return {(m, ";".join(filter(None, [variant, v])), metric): value for (m, v, metric), value in errors.items()}, rows


def _mean_distance(made: np.ndarray, points: np.ndarray) -> float:
    """How far the mean of a client's samples is from that of its points, in the mean over clients."""
    return float(np.linalg.norm(made.mean(axis=1) - points.mean(axis=1), axis=1).mean())


def code() -> str:
    """The hash of all code that decides these numbers."""
    return code_hash("diptych.simpson", *map(algorithm_module, ("padpaf", "fedper")))


def digest(variant: str, seed: int) -> str:
    """What stands for the specification of a case: how its data are made."""
    return hashlib.sha256(f"{seed} {CASES[variant]}".encode()).hexdigest()[:12]


def _differs(method: str, variant: str) -> str:
    return " ".join(DIFFERS[part] for part in (method, *variant.split(";")) if part in DIFFERS)


def measure(scale: str, seeds: list[int], records: Path, points: Path) -> None:
    """Write the records of all cases and seeds, and the points and lines of the first seed."""
    made = provenance()
    origin = {key: value for key, value in made.items() if key in COLUMNS}
    origin["code"] = code()
    origin["versions"] = versions(made["packages"])
    rows: Rows = []
    drawn: Rows = []
    for seed in seeds:
        for variant in CASES:
            started = time.monotonic()
            errors, shown = case(variant, seed)
            origin |= {
                "spec": digest(variant, seed),
                "sources_sha256": hashlib.sha256(f"{shown}".encode()).hexdigest()[:12],
                "wall_s": round(time.monotonic() - started, 2),
            }
            drawn += shown if seed == seeds[0] else []
            for (method, name, metric), value in errors.items():
                rows.append(
                    {
                        "paper": "padpaf", "table": "simpson", "kind": "result", "dataset": "simpson",
                        "style": "all", "method": method, "variant": name, "metric": metric, "unit": "score",
                        "aggregate": "none", "value": value, "status": "ok", "scale": scale, "seed": seed,
                        "run": f"padpaf/simpson/{method}/{name or 'default'}/{seed}",
                        "differs": _differs(method, name), "budget": 1, **origin,
                    }
                )  # fmt: skip
    write_csv(records, rows, COLUMNS)
    write_csv(points, drawn, POINTS)
