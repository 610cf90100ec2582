"""Sources: read from files in the format in which they are published, and refused when they are something else."""

import bz2
import dataclasses
import gzip
import os
import pickle
import struct
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torchvision.datasets as published_sets
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image
from scipy.io import savemat
from sklearn.datasets import load_digits, load_sample_image

from common.errors import InputError
from common.sources import KNOWN
from common.spec import DataSettings
from partitions import embedded, files, load, partition
from partitions.celeba import ATTRIBUTES
from partitions.published import TORCHVISION
from partitions.sources import EMBEDDED
from tests.wrong import refused

RNG = np.random.default_rng(0)
REAL = os.environ.get("DIPTYCH_DATA", "")


def _pictures(n: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, 256, (n, *shape), dtype=np.uint8)


# ---- embedded digits


def test_the_embedded_digits_are_those_of_scikit_learn():
    digits = load_digits()
    for name in EMBEDDED:
        source = load(name, 16, "")
        assert np.array_equal(source.labels, digits.target)
        assert source.images.shape[:3] == (1797, 16, 16)
    plain = load("digits-plain", 16, "").images
    small = plain.reshape(1797, 8, 2, 8, 2).mean(axis=(2, 4)) / 255  # bilinear enlargement keeps the mean brightness
    assert np.abs(small.mean(axis=(1, 2)) - digits.images.mean(axis=(1, 2)) / 16).max() < 0.03
    assert np.corrcoef(small.ravel(), digits.images.ravel())[0, 1] > 0.95


def test_the_three_styles_are_what_their_names_say():
    plain, bold, photo = (load(f"digits-{style}", 16, "").images for style in ("plain", "bold", "photo"))
    assert (bold.mean(axis=(1, 2)) > 1.2 * plain.mean(axis=(1, 2))).all(), "bold strokes cover more"
    assert photo.shape == (1797, 16, 16, 3)
    assert (photo[..., 0] != photo[..., 2]).mean() > 0.5, "photographs are in colour"


def test_plain_digits_are_enlarged_as_pil_enlarges_them():
    strokes = load_digits().images.astype(np.float32) / 16
    larger = [Image.fromarray(image).resize((16, 16), Image.Resampling.BILINEAR) for image in strokes]
    assert np.abs(load("digits-plain", 16, "").images - 255 * np.stack(larger)).max() < 0.51


def test_a_bold_pixel_is_the_mean_of_its_neighbours_largest_neighbours():
    """Of those that there are: beyond the border is nothing."""

    def neighbours(x: np.ndarray) -> np.ndarray:
        return sliding_window_view(np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=np.nan), (3, 3), axis=(1, 2))

    strokes = load("digits-plain", 16, "").images[::9].astype(float)
    expected = np.nanmean(neighbours(np.nanmax(neighbours(strokes), axis=(3, 4))), axis=(3, 4))
    assert np.abs(load("digits-bold", 16, "").images[::9] - expected).max() < 1.01


def test_a_photographed_digit_is_the_difference_from_a_place_in_a_photograph_at_half_its_size():
    plain, photo = (load(f"digits-{style}", 16, "").images.astype(int) for style in ("plain", "photo"))
    pictures = [load_sample_image(f"{name}.jpg").astype(int) for name in ("china", "flower")]
    places = set()
    for n in range(0, 1797, 137):
        picture = pictures[n % 2]
        corner = (picture[:-32, :-32] == photo[n, 0, 0]).all(axis=2)  # where no stroke is
        for top, left in np.argwhere(corner):
            ground = picture[top : top + 32 : 2, left : left + 32 : 2]
            if np.abs(np.abs(ground - plain[n, ..., None]) - photo[n]).max() <= 1:
                places.add((n, top, left))
    assert {n for n, *_ in places} == set(range(0, 1797, 137))
    assert len({(top, left) for _, top, left in places}) > 10, "a place of its own for each"
    assert np.array_equal(embedded.photo.__wrapped__().images, photo), "and always the same"


# ---- sets that torchvision knows, as small files in the published format


def _idx(file: Path, array: np.ndarray) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    file.write_bytes(header + array.tobytes())


def _write_mnist(root: Path, folder: str, parts: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    for part, (images, labels) in parts.items():
        prefix = root / folder / "raw" / {"train": "train", "test": "t10k"}[part]
        _idx(Path(f"{prefix}-images-idx3-ubyte"), images)
        _idx(Path(f"{prefix}-labels-idx1-ubyte"), labels)


def _write_usps(root: Path, parts: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    for part, (images, labels) in parts.items():
        lines = [
            f"{label + 1} " + " ".join(f"{n}:{value / 127.5 - 1:.6f}" for n, value in enumerate(image.ravel(), 1))
            for image, label in zip(images.astype(float), labels.astype(int), strict=True)
        ]
        (root / {"train": "usps.bz2", "test": "usps.t.bz2"}[part]).write_bytes(bz2.compress("\n".join(lines).encode()))


def _write_svhn(root: Path, parts: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    for part, (images, labels) in parts.items():
        y = np.where(labels == 0, 10, labels).reshape(-1, 1)  # the files say 10 for 0
        savemat(root / f"{part}_32x32.mat", {"X": images.transpose(1, 2, 3, 0), "y": y})


def _write_cifar10(root: Path, parts: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    images, labels = parts["train"]
    batches = {f"data_batch_{n}": (images[n - 1 :: 5], labels[n - 1 :: 5]) for n in range(1, 6)}
    for name, (x, y) in {**batches, "test_batch": parts["test"]}.items():
        rows = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
        (folder / name).write_bytes(pickle.dumps({"data": rows, "labels": y.tolist()}))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": [str(n) for n in range(10)]}))


WRITERS = {
    "mnist": ((28, 28), lambda root, parts: _write_mnist(root, "MNIST", parts)),
    "fashion-mnist": ((28, 28), lambda root, parts: _write_mnist(root, "FashionMNIST", parts)),
    "usps": ((16, 16), _write_usps),
    "svhn": ((32, 32, 3), _write_svhn),
    "cifar10": ((32, 32, 3), _write_cifar10),
}


@pytest.fixture
def unpinned(monkeypatch):
    """Small files in the real format cannot have the real digests."""
    for name, known in TORCHVISION.items():
        monkeypatch.setitem(TORCHVISION, name, dataclasses.replace(known, sha256=""))
    for module in (published_sets.svhn, published_sets.cifar):
        monkeypatch.setattr(module, "check_integrity", lambda path, md5=None: Path(path).is_file())


def _parts(shape: tuple[int, ...]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {
        "train": (_pictures(20, *shape), np.arange(20, dtype=np.uint8) % 10),
        "test": (_pictures(10, *shape), np.arange(10, dtype=np.uint8)[::-1].copy()),
    }


@pytest.mark.parametrize("name", WRITERS)
def test_a_published_set_is_read_as_it_was_written(name, tmp_path, unpinned):
    shape, write = WRITERS[name]
    parts = _parts(shape)
    write(tmp_path, parts)
    source = load(name, 32, str(tmp_path))
    assert np.array_equal(source.test, np.repeat([False, True], [20, 10]))
    for part, mask in (("train", ~source.test), ("test", source.test)):
        images, labels = parts[part]
        if name == "cifar10" and part == "train":  # five files, one after the other
            images, labels = (np.concatenate([a[n::5] for n in range(5)]) for a in (images, labels))
        assert np.array_equal(source.labels[mask], labels)
        assert np.abs(source.images[mask].astype(int) - images).max() <= (1 if name == "usps" else 0)


@pytest.mark.parametrize("name", ["mnist", "usps"])
def test_files_with_other_content_are_refused(name, tmp_path):
    shape, write = WRITERS[name]
    write(tmp_path, _parts(shape))
    with pytest.raises(InputError, match=f"source '{name}'.*are not the published data.*delete"):
        load(name, 32, str(tmp_path))


def test_arrays_in_the_place_of_a_published_set_are_held_to_it_as_well(tmp_path):
    """Or a table would call them what the paper has used."""
    np.savez(tmp_path / "mnist.npz", images=_pictures(20, 28, 28), labels=np.arange(20) % 10)
    with pytest.raises(InputError, match=r"source 'mnist'.*are not the published data.*delete mnist\.npz"):
        load("mnist", 32, str(tmp_path))


@pytest.mark.parametrize(
    ("name", "file"),
    [("mnist", "MNIST/raw/train-images-idx3-ubyte"), ("usps", "usps.bz2"), ("svhn", "train_32x32.mat")],
)
def test_a_truncated_download_is_refused(name, file, tmp_path, unpinned):
    shape, write = WRITERS[name]
    write(tmp_path, _parts(shape))
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=f"source '{name}'.*cannot be read.*delete .*{file}") as error:
        load(name, 32, str(tmp_path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", TORCHVISION)
def test_without_network_and_without_files_it_says_what_to_put_where(name, tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise URLError("Temporary failure in name resolution")

    for module in (published_sets.mnist, published_sets.svhn, published_sets.cifar, published_sets.usps):
        for function in ("download_url", "download_and_extract_archive"):
            if hasattr(module, function):
                monkeypatch.setattr(module, function, no_network)
    with pytest.raises(InputError) as error:
        load(name, 32, str(tmp_path / "data"))
    sentence = str(error.value)
    assert "\n" not in sentence
    for word in (f"source '{name}'", "could not be downloaded", KNOWN[name].files[0], "DIPTYCH_DATA", "put"):
        assert word in sentence
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# ---- arrays, folders, faces


def test_arrays_with_an_official_split(tmp_path):
    parts = _parts((9, 9))
    arrays = {f"{p}_{k}": a for p, pair in parts.items() for k, a in zip(("images", "labels"), pair, strict=True)}
    np.savez(tmp_path / "mine.npz", **arrays)
    source = load("mine", 32, str(tmp_path))
    assert np.array_equal(source.images[source.test], parts["test"][0])
    assert np.array_equal(source.labels[~source.test], parts["train"][1])


def test_arrays_with_styles(tmp_path):
    images, styles = _pictures(12, 8, 8, 3), np.arange(12) % 3
    np.savez(
        tmp_path / "mine.npz", images=images, labels=np.arange(12) % 4, styles=styles, style_names=["ink", "oil", "wax"]
    )
    source = load("mine/oil", 32, str(tmp_path))
    assert np.array_equal(source.images, images[1::3])
    assert np.array_equal(source.labels, np.arange(12)[1::3] % 4)
    assert source.classes == 4, "a style that lacks the last class has as many classes as the others"
    with pytest.raises(InputError, match="'mine/oill': no such style; did you mean 'oil'"):
        load("mine/oill", 32, str(tmp_path))


@pytest.mark.parametrize("name", ["office-home/Art", "adaptiope/product_images", "mine"])
def test_a_folder_of_pictures(name, tmp_path, monkeypatch):
    colours = {"bike": (250, 10, 10), "chair": (10, 250, 10)}
    for kind, colour in colours.items():
        for n, size in enumerate([(40, 60), (64, 32)]):
            (tmp_path / name / kind).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", size, colour).save(tmp_path / name / kind / f"{n}.png")
    source = load(name, 16, str(tmp_path))
    assert source.images.shape == (4, 16, 16, 3)
    assert np.array_equal(source.labels, [0, 0, 1, 1])
    assert np.array_equal(source.images[0, 8, 8], colours["bike"])
    with monkeypatch.context() as patch:
        patch.setattr(files, "_decoded", lambda *_: pytest.fail("decoded twice"))
        assert np.array_equal(load(name, 16, str(tmp_path)).images, source.images)
        patch.chdir(tmp_path.parent)
        assert np.array_equal(load(name, 16, f"./{tmp_path.name}").images, source.images), "in other words"
    Image.new("RGB", (30, 30), (10, 10, 250)).save(tmp_path / name / "bike" / "0.png")
    assert np.array_equal(load(name, 16, str(tmp_path)).images[0, 8, 8], (10, 10, 250)), "a changed picture is noticed"


def test_a_folder_that_cannot_be_written_is_read_all_the_same(tmp_path, monkeypatch):
    (tmp_path / "mine" / "a").mkdir(parents=True)
    Image.new("L", (20, 20), 7).save(tmp_path / "mine" / "a" / "0.png")
    monkeypatch.setattr(Path, "touch", lambda *_, **__: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    assert load("mine", 16, str(tmp_path)).images.shape == (1, 16, 16, 3)


def _write_celeba(root: Path) -> None:
    folder = root / "celeba"
    (folder / "img_align_celeba").mkdir(parents=True)
    names = [f"{n:06}.jpg" for n in range(1, 5)]
    for n, name in enumerate(names):
        Image.new("RGB", (178, 218), (60 * n, 0, 0)).save(folder / "img_align_celeba" / name, quality=95)
    rows = [f"{name} " + " ".join("1" if n == k else "-1" for n in range(40)) for k, name in enumerate(names)]
    (folder / "list_attr_celeba.txt").write_text("\n".join(["4", " ".join(ATTRIBUTES), *rows]))
    (folder / "identity_CelebA.txt").write_text(
        "\n".join(f"{n} {i}" for n, i in zip(names, [70, 9, 70, 8], strict=True))
    )
    (folder / "list_eval_partition.txt").write_text(
        "\n".join(f"{n} {p}" for n, p in zip(names, [0, 1, 2, 2], strict=True))
    )


def test_celeba(tmp_path):
    _write_celeba(tmp_path)
    for _ in range(2):  # from the pictures, then from what was kept of them
        source = load("celeba", 32, str(tmp_path))
        assert source.images.shape == (4, 32, 32, 3)
        assert np.abs(source.images[:, 16, 16, 0].astype(int) - [0, 60, 120, 180]).max() < 6
        assert np.array_equal(source.labels, [2, 1, 2, 0]), "identities, numbered from 0"
        assert np.array_equal(source.test, [False, False, True, True])
        assert np.array_equal(source.extra["attributes"], np.eye(40, dtype=bool)[:4])
    with pytest.raises(InputError, match="'celeba' has no styles to choose from; write 'celeba'"):
        load("celeba/Smiling", 32, str(tmp_path))
    faces = tmp_path / "celeba" / "list_attr_celeba.txt"
    faces.write_text(faces.read_text().replace("000001.jpg", "000009.jpg").replace("000002.jpg", "000001.jpg"))
    with pytest.raises(InputError, match=r"000009\.jpg is in"):
        load("celeba", 32, str(tmp_path))
    faces.write_text(faces.read_text().replace("000009.jpg", "000002.jpg"))
    swapped = load("celeba", 32, str(tmp_path))
    assert np.abs(swapped.images[:2, 16, 16, 0].astype(int) - [60, 0]).max() < 6, "what was kept is of other faces"
    picture = tmp_path / "celeba" / "img_align_celeba" / "000003.jpg"
    Image.new("RGB", (178, 218), (240, 0, 0)).save(picture, quality=95)
    assert load("celeba", 32, str(tmp_path)).images[2, 16, 16, 0] > 234, "a replaced picture is noticed"
    picture.unlink()
    with pytest.raises(InputError, match=r"000003\.jpg is not a readable picture"):
        load("celeba", 32, str(tmp_path))
    (tmp_path / "celeba" / "identity_CelebA.txt").unlink()
    with pytest.raises(InputError, match=r"identity_CelebA\.txt is missing"):
        load("celeba", 32, str(tmp_path))


def test_a_folder_with_a_part_of_a_known_source_is_not_taken_for_all_of_it(tmp_path):
    """Nor are styles taken for classes, or the folder of CelebA's pictures."""
    _write_celeba(tmp_path)
    (tmp_path / "celeba" / "list_attr_celeba.txt").unlink()
    with refused("source 'celeba': not found below", "list_attr_celeba.txt"):
        load("celeba", 32, str(tmp_path))
    for style in ("Art", "Clipart", "Product", "Real World"):
        (tmp_path / "office-home" / style / "Bed").mkdir(parents=True)
    with refused("source 'office-home': has several styles; write one, such as 'office-home/Art'"):
        load("office-home", 32, str(tmp_path))


@pytest.mark.parametrize(
    ("file", "wrong", "says"),
    [
        ("list_attr_celeba.txt", lambda lines: lines[:2], "must list faces, each once; it has 0 rows of 0"),
        ("list_attr_celeba.txt", lambda lines: lines[2:], "must have '5_o_Clock_Shadow ... Young' in its second line"),
        ("list_attr_celeba.txt", lambda lines: lines[:1], "must have '5_o_Clock_Shadow ... Young' in its second line"),
        (
            "list_attr_celeba.txt",
            lambda lines: [lines[0], " ".join(reversed(ATTRIBUTES)), *lines[2:]],
            "must have '5_o_Clock_Shadow ... Young' in its second line",
        ),
        ("identity_CelebA.txt", lambda lines: [*lines, "000001.jpg 9"], "must list faces, each once; it has 5 rows"),
        ("identity_CelebA.txt", lambda lines: [*lines, "000005.jpg"], "must have 2 columns, got '000005.jpg'"),
    ],
)
def test_lists_of_celeba_that_say_something_else_are_refused(file, wrong, says, tmp_path):
    _write_celeba(tmp_path)
    path = tmp_path / "celeba" / file
    path.write_text("\n".join(wrong(path.read_text().splitlines())))
    with refused(says):
        load("celeba", 32, str(tmp_path))


# ---- slices and digests


def test_a_slice_is_taken_of_training_and_of_test_images_each(tmp_path):
    arrays = {"train_images": _pictures(7, 8, 8), "test_images": _pictures(4, 8, 8)}
    np.savez(tmp_path / "mine.npz", **arrays, train_labels=np.arange(7), test_labels=np.arange(4))
    source = load("mine[1::3]", 32, str(tmp_path))
    assert np.array_equal(source.labels, [1, 4, 1])
    assert np.array_equal(source.test, [False, False, True])


def test_slices_with_other_offsets_have_no_image_in_common():
    parts = [load(f"digits-plain[{n}::3]", 16, "") for n in range(3)]
    assert sum(len(part.labels) for part in parts) == 1797
    assert len({part.sha256 for part in parts}) == 3


def test_the_digest_follows_every_image_label_and_split():
    source = load("digits-plain[:20]", 16, "")
    images, labels = source.images.copy(), source.labels.copy()
    images[3, 4, 5] ^= 1
    labels[7] = (labels[7] + 1) % 10
    changed = [
        dataclasses.replace(source, images=images),
        dataclasses.replace(source, labels=labels),
        dataclasses.replace(source, test=np.arange(20) < 5),
    ]
    assert len({s.sha256 for s in [source, *changed]}) == 4
    assert dataclasses.replace(source, name="other").sha256 == source.sha256


# ---- what is wrong


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"images": _pictures(4, 8, 8)}, "must hold either train_images"),
        ({"images": _pictures(4, 8, 8), "labels": np.arange(3)}, "4 images but 3 labels"),
        ({"images": _pictures(4, 8, 8).astype(float), "labels": np.arange(4)}, "must be bytes of shape"),
        ({"images": _pictures(4, 8, 8, 4), "labels": np.arange(4)}, "must be bytes of shape"),
        ({"images": _pictures(4, 8, 8), "labels": np.arange(4) - 1}, r"labels must be in 0\.\.2"),
        ({"images": _pictures(0, 8, 8), "labels": np.arange(0)}, "there is no image"),
        ({"images": np.uint8(3), "labels": np.arange(4), "more": np.arange(4)}, "must be bytes of shape"),
        (
            {"images": _pictures(4, 8, 8), "labels": np.arange(4), "styles": np.zeros(3, int)},
            r"styles must have the shape \(4,\), got \(3,\)",
        ),
    ],
)
def test_arrays_that_are_no_source(arrays, words, tmp_path):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(InputError, match=f"source 'mine'.*{words}"):
        load("mine", 32, str(tmp_path))


def test_damaged_arrays(tmp_path):
    np.savez(tmp_path / "mine.npz", images=_pictures(9, 8, 8), labels=np.arange(9))
    content = (tmp_path / "mine.npz").read_bytes()
    (tmp_path / "mine.npz").write_bytes(content[:300])
    with pytest.raises(InputError, match=r"mine\.npz: cannot be read as .npz"):
        load("mine", 32, str(tmp_path))


def test_a_damaged_picture_leaves_no_cache(tmp_path):
    (tmp_path / "mine" / "a").mkdir(parents=True)
    (tmp_path / "mine" / "a" / "0.jpg").write_bytes(b"\xff\xd8 cut off")
    with pytest.raises(InputError, match=r"0\.jpg is not a readable picture"):
        load("mine", 32, str(tmp_path))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["0.jpg"]


def test_hidden_folders_are_no_classes(tmp_path):
    for kind in ("apple", ".git", "pear"):
        (tmp_path / "mine" / kind).mkdir(parents=True)
        Image.new("RGB", (40, 40)).save(tmp_path / "mine" / kind / "0.jpg")
    source = load("mine", 32, str(tmp_path))
    assert (len(source.labels), source.classes) == (2, 2)


def test_a_class_without_pictures_is_refused(tmp_path):
    for kind in ("apple", "pear"):
        (tmp_path / "mine" / kind).mkdir(parents=True)
    Image.new("RGB", (40, 40)).save(tmp_path / "mine" / "pear" / "0.jpg")
    (tmp_path / "mine" / "apple" / "0.txt").write_text("an apple")
    with pytest.raises(InputError, match=r"source 'mine': there is no picture in .*mine/apple; put some there, or"):
        load("mine", 32, str(tmp_path))
    assert not list(tmp_path.glob(".*"))


def _styles(root: Path, classes: dict[str, str]) -> DataSettings:
    """Of a data set in folders: style -> its classes, a picture or two of each."""
    for style, kinds in classes.items():
        for kind in kinds.split():
            (root / "mine" / style / kind).mkdir(parents=True)
            for n in range(3):
                Image.new("RGB", (20, 20), (n, 0, 0)).save(root / "mine" / style / kind / f"{n}.png")
    return DataSettings(dataset="mine", image_size=16, styles={style: f"mine/{style}" for style in classes})


def test_styles_in_folders_have_classes_of_the_same_names(tmp_path):
    """Otherwise class 0 would be apples in one, and bikes in the other."""
    same = _styles(tmp_path / "same", {"art": "apple bike cat", "photo": "cat bike apple"})
    assert partition(same, str(tmp_path / "same"), 1).classes == 3
    other = _styles(tmp_path / "other", {"art": "apple bike cat", "photo": "bike cat dog"})
    sentence = r"data\.styles\.photo: source 'mine/photo' has a class 'dog', which 'mine/art' has not"
    with pytest.raises(InputError, match=sentence):
        partition(other, str(tmp_path / "other"), 1)
    with_digits = other.model_copy(update={"styles": {"art": "mine/art", "ink": "three", "photo": "mine/photo"}})
    np.savez(tmp_path / "other" / "three.npz", images=_pictures(9, 16, 16), labels=np.arange(9) % 3)
    with pytest.raises(InputError, match=sentence):
        partition(with_digits, str(tmp_path / "other"), 1)
    alone = with_digits.model_copy(update={"styles": {"ink": "three", "photo": "mine/photo"}})
    assert partition(alone, str(tmp_path / "other"), 1).classes == 3, "arrays do not say what their classes are called"


def test_a_folder_without_classes(tmp_path):
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="must hold one folder per class"):
        load("mine", 32, str(tmp_path))


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("mnist[1:2:3:4]", "write it as name"),
        ("mnist[a:]", "write it as name"),
        ("", "write it as name"),
        ("digits-plain[::0]", "a step of 0"),
        ("digits-plian", "did you mean 'digits-plain'"),
        ("digits-plain/ink", "no styles to choose from"),
        ("celeba/Smiling", "no styles to choose from"),
        ("celeba", "put there celeba/list_attr_celeba.txt"),
        ("adaptiope/synthetic", "put there adaptiope/<style>"),
        ("mnist-m", "put there mnist-m.npz"),
    ],
)
def test_expressions_that_name_nothing(expression, words, tmp_path):
    with pytest.raises(InputError, match=words) as error:
        load(expression, 32, str(tmp_path))
    assert "\n" not in str(error.value)


# ---- real files, where they are


@pytest.mark.skipif(not REAL, reason="DIPTYCH_DATA names no folder with real data")
@pytest.mark.parametrize(
    ("name", "train", "test", "shape"),
    [
        ("mnist", 60000, 10000, (28, 28)),
        ("fashion-mnist", 60000, 10000, (28, 28)),
        ("usps", 7291, 2007, (16, 16)),
        ("mnist-m", None, None, None),
        ("cifar10", None, None, (32, 32, 3)),
    ],
)
def test_real_files(name, train, test, shape):
    source = load(name, 32, REAL)
    assert set(np.unique(source.labels)) == set(range(10))
    if shape:
        assert source.images.shape[1:] == shape
    if train:
        assert ((~source.test).sum(), source.test.sum()) == (train, test)
    if name == "mnist":
        assert np.bincount(source.labels[~source.test])[[0, 1]].tolist() == [5923, 6742]


def test_the_published_format_may_be_compressed_as_torchvision_downloads_it(tmp_path):
    """torchvision unpacks what it downloads; the packed file alone does not count as found."""
    (tmp_path / "MNIST" / "raw").mkdir(parents=True)
    (tmp_path / "MNIST" / "raw" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b""))
    assert not KNOWN["mnist"].there(tmp_path)
