"""What the judge says of moved images, on images that say themselves what they show."""

import numpy as np
import pytest

from common.errors import InputError
from evaluation.moved import moved
from tests.evaluation.pictures import left, picture, protocol
from tests.mutation import mutated
from tests.wrong import refused

pytestmark = pytest.mark.usefixtures("reader")
restyling = protocol("padpaf", "restyling")
swaps = protocol("feddva", "swaps")
translation = protocol("common", "moved")


# ---- re-styling


def _pairs(pairs: list[list[int]], source, again, restyled) -> dict[str, np.ndarray]:
    arrays = {"source": source, "reconstructed": again, "restyled": restyled, "clients": np.array(pairs)}
    return {f"restyle/{key}": array for key, array in arrays.items()}


def _tests(labels: list[int], restyled: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {"restyle/test-labels": np.array(labels), "restyle/test-restyled": np.stack(restyled)}


def test_test_images_in_every_style_have_a_mean_a_floor_and_ceilings(tmp_path):
    same = np.stack([picture([1, 2])] * 4)
    arrays = _pairs([[0, 0], [0, 1], [1, 1], [1, 0]], same, same, same)
    tests = _tests([0, 1, 2, 3], [picture([0, 1, 2, 9], 0), picture([9, 9, 9, 3], 0)])
    records = [r for r in restyling(left(tmp_path, arrays | tests)) if r.get("setting") == "images=test"]
    found = {(r["metric"], r.get("client", ""), r.get("control", "")): r["value"] for r in records}
    assert [found["label_agreement", k, ""] for k in ("client-1", "client-2", "")] == [0.75, 0.25, 0.5]
    assert [found["client_accuracy", k, ""] for k in ("client-1", "client-2", "")] == [1.0, 0.0, 0.5]
    assert (found["label_agreement", "", "ceiling"], found["client_accuracy", "", "ceiling"]) == (0.9, 0.8)
    shuffled = [found["label_agreement", k, "shuffled-labels"] for k in ("client-1", "client-2", "")]
    assert shuffled[2] == np.mean(shuffled[:2]) < 0.5


def check_restyled(folder, measure=restyling) -> None:
    """Pairs (0, 0), (0, 1), (1, 1), (1, 0): where source and target differ, style was moved; elsewhere it came back."""
    labels = [[1, 1, 1, 1], [1, 2, 3, 4], [2, 2, 2, 2], [5, 6, 7, 8]]
    source = np.stack([picture(row) for row in labels])
    again = source.copy()
    again[0] += 51  # a fifth of white in one of the two pairs that came back, and more in those that were moved
    again[[1, 3]] += 200
    restyled = np.stack([picture([0] * 4)] * 4)
    restyled[1] = picture([1, 2, 9, 9], np.array([1, 1, 1, 0]))
    restyled[3] = picture([5, 6, 7, 0], np.array([0, 0, 1, 0]))
    arrays = _pairs([[0, 0], [0, 1], [1, 1], [1, 0]], source, again, restyled) | _tests([0], [picture([0])] * 2)
    records = [r for r in measure(left(folder, arrays)) if not r.get("setting")]
    found = {(r["metric"], r.get("control", "")): r["value"] for r in records}
    assert found["label_agreement", ""] == (2 + 3) / 8
    assert found["client_accuracy", ""] == (3 + 3) / 8
    assert found["pixel_error", ""] == pytest.approx(0.1)
    assert found["label_agreement", "shuffled-labels"] < 0.5, "of another image"
    assert (found["label_agreement", "ceiling"], found["client_accuracy", "ceiling"]) == (0.7, 0.8)


def test_restyled_images_keep_their_label_take_the_targets_style_and_come_back(tmp_path):
    check_restyled(tmp_path)


def test_whose_face_it_is_is_not_read_off_a_restyled_one(tmp_path):
    same = np.stack([picture([1, 2])] * 4)
    arrays = _pairs([[0, 0], [0, 1], [1, 1], [1, 0]], same, same, same) | _tests([0, 1], [picture([0, 1])] * 2)
    found = [{r["metric"] for r in restyling(left(tmp_path, arrays, dataset=name))} for name in ("mnist", "celeba")]
    assert found == [{"label_agreement", "client_accuracy", "pixel_error"}, {"client_accuracy", "pixel_error"}]


def test_controls_compare_with_another_image_and_another_target(tmp_path):
    """What came back is the image itself, and what was moved is all of the target's: floors are of two even draws."""
    rng = np.random.default_rng(0)
    source = np.repeat(rng.integers(0, 256, (1, 200, 1, 8, 8), dtype=np.uint8), 4, axis=0)
    restyled = np.stack([picture([0] * 200, client) for client in (0, 1, 1, 0)])
    labels = [1, 2, 3] * 100
    arrays = _pairs([[0, 0], [0, 1], [0, 1], [1, 0]], source, source, restyled) | _tests(labels, [picture(labels)] * 2)
    records = list(restyling(left(tmp_path, arrays)))
    assert all(list(restyling(left(tmp_path, arrays))) == records for _ in range(3)), "in the same other order"
    assert {(r["metric"], r.get("setting", "")) for r in records} == {
        (metric, setting)
        for metric in ("label_agreement", "client_accuracy", "pixel_error")
        for setting in ("", "images=test")
        if (metric, setting) != ("pixel_error", "images=test")
    }
    found = {(r["metric"], r.get("control", "")): r["value"] for r in records if not r.get("setting")}
    assert (found["pixel_error", ""], found["client_accuracy", ""]) == (0, 1)
    assert found["pixel_error", "shuffled-labels"] == pytest.approx(1 / 3, abs=0.02), "of two even draws from [0, 1]"
    assert found["client_accuracy", "shuffled-labels"] == pytest.approx(5 / 9, abs=0.04), (
        "two of three are of one client"
    )
    tested = {
        r.get("control", ""): r["value"] for r in records if r.get("setting") and r["metric"] == "label_agreement"
    }
    assert tested[""] == 1
    assert tested["shuffled-labels"] == pytest.approx(1 / 3, abs=0.1), "of three labels"


# ---- codes exchanged


def _swapped(follows: str) -> dict[str, np.ndarray]:
    """Two clients; decoded images have the label of z, and the mark of c or of the decoder."""
    rng = np.random.default_rng(0)
    labels = {k: rng.integers(0, 10, 50) for k in (0, 1)}
    arrays = {}
    for k in (0, 1):
        real = picture(labels[k], k)
        arrays |= {f"client/{k}/real": real, f"client/{k}/reconstructed": real, f"client/{k}/real/labels": labels[k]}
    for a, b in ((0, 1), (1, 0)):
        for decoder, k in (("z", a), ("c", b)):
            arrays[f"swap/{a}/{b}/{decoder}"] = picture(labels[a], b if follows == "c" else k)
    return arrays


def _by(folder, arrays: dict[str, np.ndarray], measure=swaps, **more: str) -> dict[tuple[str, str, str], float]:
    folder.mkdir(exist_ok=True)
    records = measure(left(folder, arrays, **more))
    return {(r["metric"], r.get("setting", ""), r.get("control", "")): r["value"] for r in records}


def check_swapped(folder, measure=swaps) -> None:
    codes = _by(folder / "c", _swapped("c"), measure)
    assert codes["label_agreement", "swap=c", ""] == 1, "another c leaves the label"
    assert codes["mark_agreement", "swap=c", ""] == 0, "and changes the mark"
    assert codes["label_agreement", "swap=z", ""] < 0.3
    assert codes["mark_agreement", "swap=z", ""] == 1
    assert codes["client_accuracy", "decoder of z", ""] == codes["client_accuracy", "decoder of c", ""] == 1
    decoders = _by(folder / "d", _swapped("decoder"), measure)
    assert decoders["mark_agreement", "swap=c", ""] == 1, "its own decoder draws its own mark whatever c says"
    assert decoders["mark_agreement", "swap=c;decoder=other", ""] == 0
    assert decoders["client_accuracy", "decoder of z", ""] == 0
    for found in (codes, decoders):
        assert found["label_agreement", "", "reconstruction"] == found["mark_agreement", "", "reconstruction"] == 1
        assert found["reconstruction_error", "", ""] == 0
        assert (found["label_agreement", "", "ceiling"], found["mark_agreement", "", "ceiling"]) == (0.9, 0.8)
        assert not [metric for metric, _, _ in found if metric == "attribute_change"]


def test_perfect_codes_are_told_from_a_decoder_that_does_it_all(tmp_path):
    check_swapped(tmp_path)


def test_the_error_of_a_reconstruction_is_the_mean_square_of_a_pixel_and_over_clients(tmp_path):
    """A fifth too bright at one of two clients, in half of the pixels."""
    arrays = _swapped("c")
    again = arrays["client/1/reconstructed"].copy()
    again[:, :, 4:] += 51
    found = _by(tmp_path, arrays | {"client/1/reconstructed": again})
    assert found["reconstruction_error", "", ""] == pytest.approx(0.2**2 / 2 / 2)


def check_faces(folder, measure=swaps) -> None:
    found = _by(folder, _swapped("c"), measure, dataset="celeba")
    assert found["attribute_change", "swap=c;attribute=hair", ""] == 1
    assert found["attribute_change", "swap=z;attribute=hair", ""] == 0
    assert not [metric for metric, _, _ in found if metric in ("label_agreement", "mark_agreement")]
    assert found["attribute_change", "", "reconstruction"] == 0, "where nothing was exchanged, no hair changes"
    assert found["attribute_change", "", "ceiling"] == 1, "each client has hair of its own"


def test_faces_have_hairstyles_instead_of_labels(tmp_path):
    check_faces(tmp_path)


def test_images_from_codes_of_either_kind_of_encoder_are_judged(tmp_path):
    own = {f"own/{key}": images for key, images in _swapped("c").items() if "reconstructed" in key or "swap/" in key}
    records = list(swaps(left(tmp_path, _swapped("decoder") | own)))
    found = {(r["role"], r["metric"], r["setting"]): r["value"] for r in records if r.get("control") != "ceiling"}
    assert found["shared-encoder", "mark_agreement", "swap=c"] == 1
    assert found["own-encoder", "mark_agreement", "swap=c"] == 0
    assert found["own-encoder", "reconstruction_error", ""] == 0


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("client/0/reconstructed", ["must have 50 along 'client 0 real'"]),
        ("own/client/0/reconstructed", ["must have 50 along 'client 0 real'"]),
        ("swap/0/1/c", ["must have 50 along 'exchanged of 0 with 1'"]),
        ("client/0/real/labels", ["must have 50 along 'client 0 real'"]),
    ],
)
def test_images_of_the_same_codes_are_as_many(key, words, tmp_path):
    arrays = _swapped("c")
    with refused(f"samples.npz: {key}", *words):
        _by(tmp_path, arrays | {key: arrays[key.removeprefix("own/")][1:]})


@pytest.mark.parametrize("short", [0, 1])
def test_no_more_images_are_edited_than_there_are_of_either_client(short, tmp_path):
    arrays = _swapped("c")
    names = ("real", "reconstructed", "real/labels")
    with refused("samples.npz: swap/0/1: must be at most 49 images, as there are of either, got 50"):
        _by(tmp_path, arrays | {f"client/{short}/{name}": arrays[f"client/{short}/{name}"][1:] for name in names})


def test_a_pair_of_which_no_image_was_edited_has_no_part_in_the_mean(tmp_path, recwarn):
    arrays = _swapped("c")
    whole = _by(tmp_path / "whole", arrays)
    assert _by(tmp_path / "some", arrays | {f"swap/0/1/{code}": picture([]) for code in "zc"}) == pytest.approx(
        whole, abs=0.1
    )
    assert not recwarn.list


# ---- translation


def check_translated(folder, measure=translation) -> None:
    """Ink as pen is perfect, pen as ink shows the label and is still pen; images that are real are of their style."""
    labels = {"ink": [0] * 12, "pen": [1] * 12}
    arrays = {"translated/ink/pen": picture(labels["ink"], 1, 5), "translated/pen/ink": picture(labels["pen"], 1, 6)}
    arrays |= {f"translated/{style}/{style}": picture([7] * 12) for style in labels}
    for n, (style, asked) in enumerate(labels.items()):
        arrays |= {f"real/{style}": picture(asked, n, n), f"label/{style}": np.array(asked)}
        arrays |= {f"other/{style}": picture(asked, n, n), f"other-label/{style}": np.array(asked)}
    arrays |= {f"counterpart/{a}/{b}": arrays[f"translated/{a}/{b}"] for a, b in (("ink", "pen"), ("pen", "ink"))}
    found = _by(folder, arrays, measure)
    found = {(metric, control): value for (metric, _, control), value in found.items()}
    assert (found["label_agreement", ""], found["style_agreement", ""]) == (1, 0.5)
    assert (found["label_agreement", "identity"], found["style_agreement", "identity"]) == (1, 0)
    assert (found["label_agreement", "ceiling"], found["style_agreement", "ceiling"]) == (1, 1)
    assert (found["style_agreement", "floor"], found["wd_exact", "floor"]) == (1, pytest.approx(0))
    assert (found["pixel_error", ""], found["ssim", ""]) == (0, pytest.approx(1))
    assert found["pixel_error", "identity"] > 0
    assert found["wd_exact", "identity"] > 1, "from the target's, not from themselves"
    assert found["fid", "counterpart"] == found["fid", ""] > found["fid", "floor"]
    assert not [metric for metric, control in found if control == "ceiling" and metric in ("fid", "wd_exact")]
    own = {"instance-normed/ink/pen": picture([1] * 12, 1, 5), "instance-normed/pen/ink": picture([1] * 12, 0, 0)}
    found = _by(folder, arrays | own, measure)
    for norms, said in (("", (1, 0.5)), (";norms=instance", (0.5, 1))):
        setting = f"images=translated{norms}"
        assert (found["label_agreement", setting, ""], found["style_agreement", setting, ""]) == said
    assert {control for _, setting, control in found if setting.endswith("norms=instance")} == {""}
    assert found["pixel_error", "images=translated;norms=instance", ""] > 0, "of which these are no counterparts"


def test_translated_images_are_judged_by_the_targets_style_and_the_sources_label(tmp_path):
    check_translated(tmp_path)


# ---- bugs


@pytest.mark.parametrize(
    ("check", "name", "right", "wrong"),
    [
        (check_restyled, "_between_clients", "np.not_equal", "np.equal"),
        (check_restyled, "_between_clients", "[moved, 1]", "[moved, 0]"),
        (check_restyled, "_between_clients", "images[~moved]", "images[moved]"),
        (check_swapped, "_swapped", '(("z", z, a), ("c", c, b))', '(("z", z, b), ("c", c, a))'),
        (check_swapped, "_swapped", '{"client_accuracy": b}', '{"client_accuracy": a}'),
        (check_swapped, "_swapped", "decoder == client", "decoder != client"),
        (check_faces, "_swapped", "if faces:", "if not faces:"),
        (check_translated, "_translated", "if a != b and", "if"),
        (check_translated, "_of_pairs", 'replace("<a>", a)', 'replace("<a>", b)'),
        (check_translated, "_of_pairs", 'f"real/{b}"', 'f"real/{a or b}"'),
        (check_translated, "_translated", 'f"{kind}/<a>/<b>"', '"translated/<a>/<b>"'),
        (check_translated, "_translated", "pairs, norms)", "pairs)"),
    ],
)
def test_another_protocol_is_caught(check, name, right, wrong, tmp_path):
    with mutated("evaluation.moved", name, right, wrong), pytest.raises((AssertionError, InputError, KeyError)):
        check(tmp_path)


@pytest.mark.parametrize(
    ("check", "right", "wrong"),
    [
        (check_faces, "~right", "right"),
        (check_swapped, "1 if metric in OF_LABELS else 2", "2 if metric in OF_LABELS else 1"),
        (check_restyled, "read == truth", "read != truth"),
    ],
)
def test_another_agreement_is_caught(check, right, wrong, tmp_path):
    with (
        mutated("evaluation.images", "agreement", right, wrong, where="evaluation.moved"),
        pytest.raises(AssertionError),
    ):
        check(tmp_path)


@pytest.mark.parametrize("by", ["re-styling", "exchange", "translation"])
def test_a_run_in_which_nothing_was_moved_is_not_judged(by, tmp_path):
    assert list(moved(left(tmp_path, {"real/ink": picture([1, 2])}), by=by)) == []
