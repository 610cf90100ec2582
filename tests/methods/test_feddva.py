"""FedDVA: its loss by hand and by sampling, who is trained when, what is shared, its readings."""

from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Normal
from torch.distributions import kl_divergence as torchs_kl

from abilities.codes import inferred
from abilities.decoding import _line, decoded
from abilities.scoring import scores
from baselines.ditto import Ditto
from baselines.fedavg import FedAvg
from common.errors import InputError
from common.spec import OptimiserSettings
from federation import ClientData, Simulation
from federation.functional import gradients
from methods.feddva import SLACK, FedDVA
from networks import DualEncoder
from tests.digits import data, dealt, few, objective, prepared, same, simulate, trained, with_a_stop
from tests.mutation import mutated

ADAM = OptimiserSettings(name="adam", lr=1e-3)


def _objective(**settings):
    return objective("classification", partial(DualEncoder, width=4, latent=3), hidden=3, **settings)


def _feddva(kind=FedDVA, **settings):
    return kind(objective=_objective(), **settings)


def _run(algorithm, clients=None, **settings) -> Simulation:
    return simulate(algorithm, clients, **{"buffers": "local", "optimiser": ADAM, **settings})


# ---- the loss


class _Given(torch.nn.Module):
    """A model whose posteriors, decoding and logits are given."""

    def __init__(self, q_z, q_c, decoded, logits):
        super().__init__()
        self.encoder = self
        self.given = {"z": q_z, "c": q_c}
        self.decoded, self.logits = decoded, logits
        self.asked, self.images = [], None

    def z(self, x):
        assert x is self.images
        return self.given["z"]

    def c(self, x, z):
        assert x is self.images
        self.asked.append(z)
        return self.given["c"]

    def decoder(self, z, c):
        self.asked.append((z, c))
        return self.decoded

    def head(self, h):
        return self.logits


def _case():
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(3))
    model = _Given((draw(4, 2), draw(4, 2)), (3 * draw(4, 2), draw(4, 2)), draw(4, 3, 5, 5).tanh(), draw(4, 10))
    batch = {"x": draw(4, 3, 5, 5).sigmoid(), "y": torch.tensor([1, 5, 0, 9]), "noise": (draw(4, 2), draw(4, 2))}
    model.images = batch["x"]
    return model, batch


def check_the_loss(kind) -> None:
    """Eq. 4 with Eq. 6, 7 and 26, written out image by image: its value, and its gradient by all posteriors."""
    model, batch = _case()
    leaves = [part.requires_grad_() for part in (*model.given["z"], *model.given["c"])]
    for xi, focal in ((0.0, 0.0), (0.7, 0.0), (40.0, 5.0)):
        algorithm = kind(objective=_objective(), alpha=0.5, beta=0.75, xi=xi, focal=focal, classify=2.0)
        normal = {key: Normal(mean, (spread / 2).exp()) for key, (mean, spread) in model.given.items()}
        expected = 0.0
        for i in range(4):
            own = {key: Normal(q.loc[i], q.scale[i]) for key, q in normal.items()}
            to_prior = {key: torchs_kl(q, Normal(0.0, 1.0)).sum() for key, q in own.items()}
            pairs = [torchs_kl(own["c"], Normal(normal["c"].loc[j], normal["c"].scale[j])).sum() for j in range(4)]
            r_c = max(xi * 2 + sum(pairs) / 4, to_prior["c"])
            log_p = Normal(model.decoded[i], 1.0).log_prob(2 * batch["x"][i] - 1)
            fit = -((1 - log_p.exp()) ** focal * log_p).sum() / 3
            label = F.cross_entropy(model.logits[i], batch["y"][i])
            expected = expected + (fit + 0.5 * to_prior["z"] + 0.75 * r_c + 2 * label) / 4
        loss = algorithm.loss(model, batch)
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(*(torch.autograd.grad(of, leaves) for of in (loss, expected)))


def test_the_loss():
    check_the_loss(FedDVA)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("+ self.beta * self.regulariser", "- self.beta * self.regulariser"),
        ("torch.maximum", "torch.minimum"),
        ("2 * x - 1 - decoded", "x - decoded"),
        ("log_p.mean(dim=1)", "log_p.sum(dim=1)"),
        ("self.xi * q_c[0].shape[-1]", "self.xi"),
        ("** self.focal", "** 1"),
    ],
)
def test_a_wrong_loss_is_caught(right, wrong):
    with mutated("methods.feddva", "FedDVA", right, wrong) as mutant, pytest.raises(AssertionError):
        check_the_loss(mutant)


def check_the_pixels(kind) -> None:
    """25 pixels that count as 784 weigh 784 / 25 times as much; 25 that count as 25 are the same to the bit."""
    model, batch = _case()
    plain = kind(objective=_objective()).reconstruction(model.decoded, batch["x"])
    for focal in (0.0, 5.0):
        as_many = [
            kind(objective=_objective(), focal=focal, reconstruction_pixels=n).reconstruction(model.decoded, batch["x"])
            for n in (25, 784)
        ]
        torch.testing.assert_close(as_many[1], as_many[0] * 784 / 25)
        assert torch.equal(as_many[0], plain) == (not focal)
    grey = model.decoded[:1, :1], batch["x"][:1, :1]
    expected = -Normal(grey[0], 1.0).log_prob(2 * grey[1] - 1).sum()
    torch.testing.assert_close(kind(objective=_objective()).reconstruction(*grey), expected[None])


def test_the_balance_of_another_size_can_be_kept():
    check_the_pixels(FedDVA)


@pytest.mark.parametrize(
    ("right", "wrong"), [("-share * log_p", "-log_p"), ("log_p[0, 0].numel()) /", "log_p[0].numel()) /")]
)
def test_a_wrong_balance_is_caught(right, wrong):
    with mutated("methods.feddva", "FedDVA", right, wrong) as mutant, pytest.raises(AssertionError):
        check_the_pixels(mutant)


@pytest.mark.parametrize("classify_on", ["samples", "means"])
def test_the_head_is_told_samples_or_means_and_the_decoder_samples(classify_on):
    model, batch = _case()
    told = []
    model.head = lambda h: told.append(h) or model.logits
    _feddva(classify_on=classify_on).loss(model, batch)
    _, decoded = model.asked
    expected = decoded if classify_on == "samples" else (model.given["z"][0], model.given["c"][0])
    assert torch.equal(told[0], torch.cat(expected, dim=1))
    assert not torch.equal(decoded[0], model.given["z"][0])


def test_codes_are_drawn_from_the_posteriors_and_z_is_given_to_the_second_encoder():
    model, batch = _case()
    _feddva().loss(model, batch)
    (given, (z, c)), drawn = model.asked, {}
    for key, noise in zip("zc", batch["noise"], strict=True):
        mean, log_variance = model.given[key]
        drawn[key] = mean + log_variance.exp().sqrt() * noise
    torch.testing.assert_close((given, z, c), (drawn["z"], drawn["z"], drawn["c"]))


def test_what_the_second_encoder_says_moves_the_first():
    """The text cuts no gradient; the authors' code does."""
    algorithm = _feddva()
    model = algorithm.model()
    draw = torch.Generator().manual_seed(1)
    _, _, q_c, _ = algorithm.codes(model, algorithm.draw(torch.rand(6, 3, 8, 8, generator=draw), torch.arange(6), draw))
    moved = torch.autograd.grad(q_c[0].square().sum(), [*model.encoder.general.parameters()], allow_unused=True)
    assert any(gradient is not None and gradient.any() for gradient in moved)


def test_the_decoders_loss_has_the_gradient_of_the_whole():
    torch.manual_seed(0)
    algorithm = _feddva()
    model = algorithm.model()
    draw = torch.Generator().manual_seed(1)
    batch = algorithm.draw(torch.rand(6, 3, 8, 8, generator=draw), torch.arange(6), draw)
    leaves = list(model.decoder.parameters())
    both = [torch.autograd.grad(loss(model, batch), leaves) for loss in (algorithm.loss, algorithm.decoder_loss)]
    for whole, part in zip(*both, strict=True):
        torch.testing.assert_close(whole, part)


# ---- who is trained when


def check_the_phases(kind) -> None:
    """Algorithm 1: the decoder first, on Eq. 9, then both encoders, on Eq. 11; nothing else moves in either pass."""
    algorithm = _feddva(kind)
    model, moved = algorithm.model(), []
    for phase in algorithm.phases():
        (update,) = phase.updates
        parts = {name.split(".")[0] for name, _ in model.named_parameters() if update.which.contains(name, model)}
        moved.append(parts)
    assert moved == [{"decoder"}, {"encoder", "head"}]


def test_the_phases():
    check_the_phases(FedDVA)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('names("decoder"), self.decoder_loss', 'names("encoder"), self.loss'),
        ('names("encoder", *head), self.loss', 'names("decoder", "encoder", *head), self.loss'),
    ],
)
def test_wrong_phases_are_caught(right, wrong):
    with mutated("methods.feddva", "FedDVA", right, wrong) as mutant, pytest.raises(AssertionError):
        check_the_phases(mutant)


def test_without_labels_the_head_stays_as_it_was():
    simulation = _run(_feddva(classify=0.0), rounds=1)
    start = dict(simulation.template.named_parameters())
    heads = {name: t for name, t in simulation.server.tensors.items() if name.startswith("head")}
    assert heads
    assert all(torch.allclose(t, start[name], atol=1e-6) for name, t in heads.items())


def test_the_released_phases():
    """Decoder on a random c; general encoder on a random c; then personal encoder and decoder."""
    algorithm = _feddva(reading="released", classify=0.0, xi=0.5)
    model = algorithm.model()
    which = [
        {name.rsplit(".", 2)[0].split(".")[0] + "." + name.split(".")[1] for name, _ in model.named_parameters()
         if update.which.contains(name, model) and name.startswith("encoder")}
        | ({"decoder"} if update.which.contains("decoder.lift.0.weight", model) else set())
        for phase in algorithm.phases() for update in phase.updates
    ]  # fmt: skip
    assert which == [{"decoder"}, {"encoder.general"}, {"encoder.personal", "decoder"}]
    for reading in ("paper", "released"):
        phases = _feddva(reading=reading, classify=0.0).phases()
        assert not any(phase.updates[0].which.contains("head.weight", model) for phase in phases)
    with_head = _feddva(reading="released").phases()
    assert [phase.updates[0].which.contains("head.weight", model) for phase in with_head] == [True, False, True]
    given, batch = _case()
    losses = algorithm.released_decoder_loss, algorithm.released_general_loss, algorithm.released_personal_loss
    for phase, loss in zip(algorithm.phases(), losses, strict=True):
        assert phase.updates[0].loss(given, batch) == loss(given, batch)


def test_the_released_regulariser():
    """A divergence from N(batch mean, I) and a hinge, with 0.01 added to variances that divide."""
    model, batch = _case()
    model.given["c"] = (model.given["c"][0].requires_grad_(), model.given["c"][1])
    algorithm = _feddva(reading="released", classify=0.0, xi=0.5, beta=1.0)
    loss = algorithm.released_personal_loss(model, batch)
    others, log_variance = (part.detach() for part in model.given["c"])
    mean = others.clone().requires_grad_()
    variance, total = log_variance.exp(), 0.0

    def slacked(m, v, other, w):
        return 0.5 * (((m - other) ** 2 + v) / (w + SLACK) - 1 - (v / w).log()).sum()

    for i in range(4):
        local = slacked(mean[i], variance[i], mean.mean(dim=0), torch.ones(2))
        prior = slacked(mean[i], variance[i], torch.zeros(2), torch.ones(2))
        bound = sum(slacked(mean[i], variance[i], others[j], variance[j]) for j in range(4)) / 4
        total = total + (local + max(0.0, 0.5 * 2 + bound - prior)) / 4
    fit = algorithm.fit(model, model.asked[0], model.asked[0], batch)
    torch.testing.assert_close(loss, total + fit)
    (ours,), (by_hand,) = (torch.autograd.grad(of, at) for of, at in ((loss, model.given["c"][0]), (total, mean)))
    torch.testing.assert_close(ours, by_hand)


def test_the_released_losses_in_parts():
    """Of the decoder: decoding alone. Of the general encoder: alpha of its divergence more. Both decode a draw of z and
    a c that is none. The personal encoder is given that draw, and only its own posterior feels the loss through it."""
    model, batch = _case()
    z = model.given["z"]
    for part in z:
        part.requires_grad_()
    algorithm = _feddva(reading="released", classify=2.0, alpha=0.5, beta=0.75)
    drawn = z[0] + (z[1] / 2).exp() * batch["noise"][0]
    fit = algorithm.fit(model, drawn, batch["noise"][1], batch)
    variance = z[1].exp()
    slacked = 0.5 * ((z[0] ** 2 + variance) / (1 + SLACK) - 1 - z[1]).sum(dim=1).mean()
    for loss, expected in (
        (algorithm.released_decoder_loss(model, batch), fit),
        (algorithm.released_general_loss(model, batch), fit + 0.5 * slacked),
    ):
        torch.testing.assert_close(loss, expected)
    for asked in model.asked:
        torch.testing.assert_close(asked, (drawn, batch["noise"][1]))
    model.asked.clear()
    algorithm.released_personal_loss(model, batch)
    given, (decoded_z, decoded_c) = model.asked
    torch.testing.assert_close(given, drawn)
    assert not given.requires_grad
    assert decoded_z.requires_grad
    c = model.given["c"]
    torch.testing.assert_close(decoded_c, c[0] + (c[1] / 2).exp() * batch["noise"][1])


# ---- what is shared


def test_encoders_are_equal_after_a_round_and_decoders_are_not():
    simulation = _run(_feddva(), rounds=2)
    after = [simulation.synchronised(k) for k in range(3)]
    tensors = [dict(model.named_parameters()) for model in after]
    for name in tensors[0]:
        alike = all(torch.equal(t[name], tensors[0][name]) for t in tensors[1:])
        assert alike == (not name.startswith("decoder")), name
    assert {name.split(".")[0] for name in simulation.server.tensors} == {"encoder", "head"}
    private = _run(_feddva(head="private"), rounds=1)
    assert {name.split(".")[0] for name in private.server.tensors} == {"encoder"}


def test_encoders_are_averaged_by_the_number_of_images():
    everyone = data()
    clients = (everyone.clients[0][:100], everyone.clients[1][:30], everyone.clients[2][:50])
    simulation = _run(_feddva(), ClientData(everyone.images, everyone.labels, clients), rounds=1)
    name = "encoder.personal.backbone.0.weight"
    rows, weights = simulation.population.storage[name], torch.tensor([100.0, 30.0, 50.0]) / 180
    torch.testing.assert_close(simulation.server.tensors[name], torch.einsum("k,k...->...", weights, rows))


def test_one_client_trains_one_auto_encoder():
    """No averaging, so encoders and decoder go on from where they stood, and the loss falls in both passes."""
    simulation = _run(_feddva(), few(clients=1), rounds=6)
    for phase in (0, 1):
        losses = [row["loss"] for row in simulation.history if row["phase"] == phase]
        assert losses == sorted(losses, reverse=True)


def test_c_can_hold_something_and_the_regulariser_empties_it():
    """A control for what is reported of c: without R_c, another image's c changes what is decoded."""
    one = few(clients=1)
    x = one.images[one.clients[0]].float() / 255
    fast = OptimiserSettings(name="adam", lr=3e-3)
    moved = {}
    for beta in (0.0, 0.75):
        model = _run(_feddva(beta=beta, classify=0.0), one, rounds=6, local_epochs=2, optimiser=fast).synchronised(0)
        model.eval()
        with torch.no_grad():
            z, _ = model.encoder.z(x)
            c, _ = model.encoder.c(x, z)
            moved[beta] = float((model.decoder(z, c) - model.decoder(z, c.roll(1, 0))).square().mean())
    assert moved[0.0] > 1e-3
    assert moved[0.75] < 0.1 * moved[0.0]


# ---- heads on its representations


@pytest.mark.parametrize("kind", [FedAvg, Ditto])
def test_a_head_is_trained_on_encoders_that_stay(kind):
    trained = _run(_feddva(classify=0.0), rounds=1).server.tensors
    algorithm = kind(objective=_objective(frozen=True))
    start = {name: tensor.unsqueeze(0) for name, tensor in trained.items()}
    simulation = _run(algorithm, rounds=1, start=start)
    for model in simulation.population.members:
        for part in {id(p): p for p in (algorithm.global_model(model), algorithm.personal_model(model))}.values():
            assert same(dict(part.encoder.named_parameters()), trained, other="encoder.")
            assert not torch.equal(part.head[0].weight, trained["head.0.weight"])


@pytest.mark.parametrize("kind", [FedAvg, Ditto])
def test_encoders_that_were_trained_without_labels_are_tuned_along_with_a_head(kind):
    """Sec. V-B: both begin where FedDVA has ended, and both move."""
    trained = _run(_feddva(classify=0.0), rounds=1).server.tensors
    start = {name: tensor.unsqueeze(0) for name, tensor in trained.items()}
    simulation = prepared(kind(objective=_objective()), rounds=1, buffers="local", optimiser=ADAM, start=start)
    models = simulation.population.members
    for model in models:
        assert same(
            dict(simulation.algorithm.personal_model(model).encoder.named_parameters()), trained, other="encoder."
        )
    simulation.run()
    for model in models:
        for part in (simulation.algorithm.global_model(model), simulation.algorithm.personal_model(model)):
            for name in ("encoder.general.backbone.0.weight", "encoder.personal.embed_z.weight", "head.0.weight"):
                assert not torch.equal(part.get_parameter(name), trained[name]), name


def test_a_start_that_does_not_fit_is_refused():
    with pytest.raises(
        InputError, match=r"start: that run has tensors that this one has not in this shape: encoder\.w"
    ):
        prepared(FedAvg(objective=_objective()), start={"encoder.w": torch.zeros(1, 3)})


# ---- what is looked at


def test_scores_are_of_each_clients_own_model_on_its_test_images():
    simulation = _run(_feddva(), rounds=1)
    rows = scores(trained(simulation))
    found = {(row["client"], row["score"]): row["value"] for row in rows}
    assert {name for _, name in found} == {"accuracy", "reconstruction_error", "kl_z", "kl_c", "kl_c_mixture"}
    split = dealt()
    for k in range(3):
        model = simulation.synchronised(k).eval()
        x, y = split.images[split.tests[k]].float() / 255, split.labels[split.tests[k]]
        with torch.no_grad():
            z, log_variance = model.encoder.z(x)
            c, _ = model.encoder.c(x, z)
            right = model.head(torch.cat([z, c], dim=1)).argmax(dim=1) == y
            error = ((model.decoder(z, c) + 1) / 2 - x).square().mean()
            divergence = torchs_kl(Normal(z, (log_variance / 2).exp()), Normal(0.0, 1.0)).sum(dim=1).mean()
        assert found[k, "accuracy"] == pytest.approx(float(right.float().mean()))
        assert found[k, "reconstruction_error"] == pytest.approx(float(error), rel=1e-5)
        assert found[k, "kl_z"] == pytest.approx(float(divergence), rel=1e-5)


def test_what_is_scored_of_posteriors_by_hand():
    """Means are decoded, and c is asked for with the mean of z."""
    model, batch = _case()
    found = _feddva(classify=0.0).scores(model, batch["x"], batch["y"])
    asked, decoded = model.asked
    assert asked is decoded[0] is model.given["z"][0]
    assert decoded[1] is model.given["c"][0]
    normal = {key: Normal(mean, (spread / 2).exp()) for key, (mean, spread) in model.given.items()}
    q_c = [Normal(*of_image) for of_image in zip(normal["c"].loc, normal["c"].scale, strict=True)]
    expected = {f"kl_{key}": torchs_kl(q, Normal(0.0, 1.0)).sum(dim=1) for key, q in normal.items()}
    expected["kl_c_mixture"] = torch.stack([sum(torchs_kl(p, q).sum() for q in q_c) / 4 for p in q_c])
    pixels = ((model.decoded + 1) / 2 - batch["x"]).square()
    expected["reconstruction_error"] = torch.stack([image.sum() / image.numel() for image in pixels])
    assert found.keys() == expected.keys()
    for name, of_images in expected.items():
        torch.testing.assert_close(found[name], of_images)


def test_codes_and_swaps_are_of_the_right_images_and_decoders():
    simulation = _run(_feddva(), rounds=1)
    before = {name: rows.clone() for name, rows in simulation.population.storage.items()}
    looked_at = trained(simulation, samples={"images": 18, "probed": 30})
    features, samples = inferred(looked_at), decoded(looked_at)
    assert features["codes/test/z"].shape == (30, 3)
    assert features["codes/train/client"].tolist() == [k for k in range(3) for _ in range(10)]
    model = simulation.synchronised(1).eval()
    x = torch.from_numpy(features["codes/test/pixels"][10:20]).float().div(255).unflatten(1, (3, 8, 8))
    with torch.no_grad():
        z, _ = model.encoder.z(x)
        torch.testing.assert_close(torch.from_numpy(features["codes/test/z"][10:20]), z)
        torch.testing.assert_close(torch.from_numpy(features["codes/test/c"][10:20]), model.encoder.c(x, z)[0])
        real = {k: torch.from_numpy(samples[f"client/{k}/real"]).float() / 255 for k in (1, 2)}
        z_1, _ = simulation.synchronised(1).eval().encoder.z(real[1])
        other = simulation.synchronised(2).eval()
        c_2, _ = other.encoder.c(real[2], other.encoder.z(real[2])[0])
        swapped = (other.decoder(z_1, c_2) + 1) / 2
    got = torch.from_numpy(samples["swap/1/2/c"]).float() / 255
    torch.testing.assert_close(got, swapped, atol=1 / 255, rtol=0)
    assert samples["manifold/0"].shape == (8, 8, 3, 8, 8)
    assert all(torch.equal(rows, before[name]) for name, rows in simulation.population.storage.items())


def test_codes_are_of_the_shared_encoders_and_of_each_clients_own():
    """A client's images by its own model and everybody's by everybody's, before and after the server averages."""
    simulation = _run(_feddva(), rounds=1)
    looked_at = trained(simulation, samples={"images": 18, "probed": 30})
    features, samples = inferred(looked_at), decoded(looked_at)
    x = torch.from_numpy(features["codes/test/pixels"]).float().div(255).unflatten(1, (3, 8, 8))
    owner = features["codes/test/client"]
    for place, kind in (("", simulation.synchronised), ("own/", simulation.own)):
        models = [kind(k).eval() for k in range(3)]
        with torch.no_grad():
            z = torch.stack([m.encoder.z(x)[0] for m in models], dim=1)
            c = torch.stack([m.encoder.c(x, m.encoder.z(x)[0])[0] for m in models], dim=1)
            spread = torch.stack([m.encoder.c(x, m.encoder.z(x)[0])[1] for m in models], dim=1)
            real = torch.from_numpy(samples["client/2/real"]).float() / 255
            z_2, _ = models[2].encoder.z(real)
            again = (models[2].decoder(z_2, models[2].encoder.c(real, z_2)[0]) + 1) / 2
        for key, everyones in (("z", z), ("c", c)):
            torch.testing.assert_close(torch.from_numpy(features[f"{place}crossed/{key}"]), everyones)
            own = everyones[range(len(owner)), owner]
            torch.testing.assert_close(torch.from_numpy(features[f"{place}codes/test/{key}"]), own)
        own = spread[range(len(owner)), owner]
        torch.testing.assert_close(torch.from_numpy(features[f"{place}codes/test/c-log-variance"]), own)
        got = torch.from_numpy(samples[f"{place}client/2/reconstructed"]).float() / 255
        torch.testing.assert_close(got, again, atol=1 / 255, rtol=0)
    assert not np.allclose(features["codes/test/c"], features["own/codes/test/c"])
    assert (samples["swap/0/1/z"] != samples["own/swap/0/1/z"]).any()


def test_a_manifold_follows_the_direction_in_which_codes_vary_most():
    codes = torch.tensor([[0.0, 1.0], [2.0, 1.1], [4.0, 0.9], [6.0, 1.0]])
    line = _line(codes)
    assert line.shape == (8, 2)
    torch.testing.assert_close((line[0] + line[-1]) / 2, codes.mean(dim=0))
    assert float((line[-1] - line[0])[0]) == pytest.approx(4 * float(codes[:, 0].std()), rel=0.01)


def test_scores_survive_a_stop(tmp_path):
    """A run that is killed after its second round scores the first two only once, and the rest as if never stopped."""
    make = partial(prepared, _feddva(), rounds=4, buffers="local", optimiser=ADAM)

    def keep(simulation: Simulation) -> None:
        if simulation.round:
            simulation.scores += scores(trained(simulation))

    whole, resumed = with_a_stop(make, tmp_path, after=2, each=keep)
    assert resumed.scores == whole.scores
    assert len(whole.scores) == 4 * 3 * 5


# ---- bad input


def test_a_client_without_images_is_refused():
    everyone = data()
    with pytest.raises(InputError, match="data: client 1 of 2 has no training images"):
        ClientData(everyone.images, everyone.labels, (everyone.clients[0], torch.zeros(0, dtype=torch.long)))


@pytest.mark.parametrize("kind", [FedAvg, Ditto])
def test_dual_encoders_are_tuned_with_a_head_and_keep_the_variances_that_it_does_not_see(kind):
    """As with torch's optimisers, which leave alone what has no gradient."""
    simulation = _run(kind(objective=_objective()), rounds=1)
    start = dict(simulation.template.named_parameters())
    moved = {name for name, was in start.items() if (simulation.population.storage[name] != was).any()}
    assert moved == {name for name in start if "log_variance" not in name}


def test_a_step_that_could_move_nothing_is_still_an_error():
    x, y = (torch.ones(3, requires_grad=True) for _ in range(2))
    assert [g.tolist() for g in gradients((2 * x).sum(), [x, y])] == [[2, 2, 2], [0, 0, 0]]
    with pytest.raises(ValueError, match="depends on none of the parameters"):
        gradients((2 * x).sum(), [y])


def test_means_of_posteriors_that_are_not_there_are_refused():
    with pytest.raises(InputError, match=r"algorithm\.classify_on: must be 'samples' with reading 'released'.*'means'"):
        _feddva(classify_on="means", reading="released").model()


@pytest.mark.parametrize(
    "settings",
    [
        {"xi": -1.0},
        {"alpha": -0.1},
        {"reading": "code"},
        {"head": "none"},
        {"classify_on": "z"},
        {"reconstruction_pixels": 0},
    ],
)
def test_wrong_settings_are_refused(settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        _feddva(**settings)


def test_another_encoder_is_refused():
    with pytest.raises(InputError, match="FedDVA needs 'dual-encoder', got Conv3"):
        FedDVA(objective=objective("classification")).model()
