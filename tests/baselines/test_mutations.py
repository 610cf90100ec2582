"""The wrong algorithms that public code is known for: each is put in here, and must be caught by an answer by hand."""

import pytest

from tests.baselines import test_fidelity as fidelity
from tests.federation import test_batch_norm as batch_norm
from tests.mutation import mutated

ALGORITHM, SIMULATION, SERVER = "federation.algorithm", "federation.simulation", "federation.server"
LOCAL, LOCAL_WORK = "federation.local", "federation.simulation:Simulation.local_work"

# bug: module, function or class, right, wrong, check that must fail
ALGORITHM_BUGS = {
    "proximal term pushes away": (
        "baselines.fedprox", "FedProx", "return self.mu / 2", "return -self.mu / 2", fidelity.check_fedprox),
    "proximal term overwritten": (
        "baselines.fedprox", "FedProx", "update.plus(self.proximal_term)", "update", fidelity.check_fedprox),
    "reference is the current model": (
        "baselines.fedprox", "FedProx", "sq_distance(m, m.received)", "sq_distance(m, m)", fidelity.check_fedprox),
    "half of the proximal gradient": (
        "baselines.fedprox", "FedProx", "self.mu / 2", "self.mu / 4", fidelity.check_fedprox),
    "model never overwritten": (
        "baselines.fedprox", "FedProx", '== "canonical"', '!= "canonical"', fidelity.check_fedprox),
    "fixed mu": (
        "baselines.ditto", "Ditto", "self.mu / 2", "0.1 / 2", fidelity.check_ditto),
    "reference taken too late": (
        "baselines.ditto", "Ditto", "else m.received.w", "else m.w", fidelity.check_ditto),
    "reference trained along": (
        "baselines.ditto", "Ditto", 'update.on("v").plus(self.proximal_term)',
        'Update(names("v", "w"), lambda m, batch: update.loss(m.v, batch) + self.mu / 2 * sum('
        '(p - q).square().sum() for p, q in zip(m.v.parameters(), m.w.parameters(), strict=True)))',
        fidelity.check_ditto_as_fedstyle_reads_it),
    "personal model averaged": (
        "baselines.ditto", "Ditto", 'shared = names("w")', 'shared = names("w", "v")', fidelity.check_ditto),
    "stale gradient moves the global model twice": (
        "baselines.apfl", "APFL", 'update.on("w") for update in self.objective.updates()',
        'update.on("w") for update in self.objective.updates() * 2',
        fidelity.check_apfl),
    "mixture with alpha twice": (
        "baselines.apfl", "APFL", "(1 - self.alpha) * w[name]", "self.alpha * w[name]", fidelity.check_apfl),
    "personal model trained on its own loss": (
        "baselines.apfl", "APFL", "call_with(self.mixture(m), update.loss, m.v, batch)", "update.loss(m.v, batch)",
        fidelity.check_apfl),
    "gradient through the shared outputs": (
        "baselines.apfl", "APFL", "(1 - self.alpha) * z for", "self.alpha * z for",
        fidelity.check_apfl_as_fedstyle_reads_it),
    "nothing exchanged": (
        "baselines.fedper", "FedPer", '"encoder"', '"base"', fidelity.check_fedper),
    "everything exchanged": (
        "baselines.fedper", "FedPer", 'names("encoder")', 'names("encoder", "head")', fidelity.check_fedper),
    "head trained along with the body": (
        "baselines.fedrep", "FedRep", "only=BODY", "only=BODY | HEAD", fidelity.check_fedrep),
    "body trained too long": (
        "baselines.fedrep", "FedRep", "epochs=self.body_epochs if", "epochs=2.0 if", fidelity.check_fedrep),
    "fine-tuning on a stale model": (
        "baselines.fedavg_ft", "FedAvgFT", "return [Phase", "return [] and [Phase", fidelity.check_fine_tuning),
}  # fmt: skip

ENGINE_BUGS = {
    "cumulative proximal sum": (
        ALGORITHM, "sq_distance", "ours.items()]).sum()", "ours.items()]).cumsum(0).sum()",
        "baselines.fedprox", fidelity.check_fedprox),
    "missing square": (
        ALGORITHM, "sq_distance", ".square().sum()", ".norm()", "baselines.fedprox", fidelity.check_fedprox),
    "a tensor left out of the distance": (
        ALGORITHM, "sq_distance", "for name, p in ours.items()", "for name, p in list(ours.items())[1:]",
        "baselines.fedprox", fidelity.check_fedprox),
    "unweighted mean": (
        SERVER, "Server", 'self.settings.weighting == "size"', "False", SIMULATION, fidelity.check_fedavg),
    "always weighted": (
        SERVER, "Server", 'self.settings.weighting == "size"', "True", SIMULATION, fidelity.check_uniform),
    "weights not normalised": (
        SERVER, "Server", "shares / shares.sum()", "shares", SIMULATION, fidelity.check_fedavg),
    "weighted by batches": (
        SIMULATION, "Simulation", "len(self.data.share(client, round)) for client in chosen", "1 for client in chosen",
        "tests.quadratic", fidelity.check_fedavg),
    "weighted by the sizes of the first clients, not of the sampled ones": (
        SIMULATION, "Simulation", "len(self.data.share(client, round)) for client in chosen",
        "len(self.data.share(client, round)) for client in range(len(chosen))",
        "tests.quadratic", fidelity.check_sampled_sizes),
    "optimiser state that is never made anew": (
        LOCAL, "LocalWork", '{} if self.settings.optimiser_state == "round" else self', "self",
        LOCAL_WORK, fidelity.check_fresh_momentum),
    "broadcast not installed": (
        SIMULATION, "Simulation", "self.population.install(clients,", "(lambda *_: None)(clients,",
        "tests.quadratic", fidelity.check_fedavg),
    "optimiser state shared by clients": (
        LOCAL, "LocalWork", "for u in range(len(updates))]", "for u in [0] * len(updates)]",
        LOCAL_WORK, fidelity.check_persistent_momentum),
    "dropped buffers": (
        SIMULATION, "Simulation", '(entry.is_parameter or self.settings.buffers == "shared")', "entry.is_parameter",
        "tests.federation.test_batch_norm", batch_norm.check_shared_statistics),
    "buffers always sent": (
        SIMULATION, "Simulation", 'self.settings.buffers == "shared"', "True",
        "tests.federation.test_batch_norm", batch_norm.check_local_statistics),
    "clients left in evaluation mode": (
        "federation.population", "Population", "return model.train()", "return model.eval()",
        SIMULATION, batch_norm.check_shared_statistics),
}  # fmt: skip


@pytest.mark.parametrize("bug", ALGORITHM_BUGS)
def test_a_wrong_algorithm_is_caught(bug):
    module, name, right, wrong, check = ALGORITHM_BUGS[bug]
    with mutated(module, name, right, wrong) as mutant, pytest.raises((AssertionError, ValueError, RuntimeError)):
        check(mutant)


@pytest.mark.parametrize("bug", ENGINE_BUGS)
def test_a_wrong_engine_is_caught(bug):
    module, name, right, wrong, where, check = ENGINE_BUGS[bug]
    with mutated(module, name, right, wrong, where=where), pytest.raises(AssertionError):
        check()


@pytest.mark.parametrize(
    "check", list(dict.fromkeys(row[-1] for row in [*ALGORITHM_BUGS.values(), *ENGINE_BUGS.values()]))
)
def test_the_checks_pass_on_the_right_code(check):
    check()
