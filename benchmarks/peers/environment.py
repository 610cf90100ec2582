"""An environment for each peer, made once and kept: what its file here pins, and this environment's torch.

    python -m benchmarks.peers.environment flower     makes it if it is not there, and prints its Python

One build of torch computes for all, so that what differs is the simulator; and it need not be installed three times.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

PEERS = ("flower", "pfl")
HERE = Path(__file__).parent


class NotInstalled(RuntimeError):
    """pip could not install what a peer needs."""


def python_of(peer: str, cache: Path | None = None) -> Path:
    """The Python of a peer's environment, which is made if there is none for what is pinned now.

    Args:
        peer: `<peer>.txt` beside this file pins its packages.
        cache: the folder of all environments; `diptych` in the user's cache if None.

    Raises:
        NotInstalled: with the last line that pip said.
    """
    pinned = (HERE / f"{peer}.txt").read_bytes()
    named = hashlib.sha256(b"\n".join([pinned, sys.version.encode(), version("torch").encode()])).hexdigest()[:12]
    folder = (cache or _cache()) / f"{peer}-{named}"
    if not (folder / "complete").exists():
        _make(folder, HERE / f"{peer}.txt")
    _see_our_torch(folder)  # an environment outlives the one that it was made from
    return folder / "bin" / "python"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "diptych" / "peers"


def _make(folder: Path, pinned: Path) -> None:
    venv.create(folder, clear=True, with_pip=True)
    python = folder / "bin" / "python"
    # not this environment's packages, which a PYTHONPATH may name
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    alone["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"  # whose notice would be the last that pip says
    with tempfile.TemporaryDirectory() as elsewhere:
        command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--requirement", str(pinned)]
        done = subprocess.run(command, cwd=elsewhere, env=alone, capture_output=True, text=True)
    if done.returncode:
        raise NotInstalled(f"{pinned.name}: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}")
    (folder / "complete").touch()


def _see_our_torch(folder: Path) -> None:
    (packages,) = folder.glob("lib/python*/site-packages")
    ours = find_spec("torch")  # which takes no seconds, as its import would
    assert ours
    assert ours.origin
    (packages / "torch-of-the-project.pth").write_text(f"{Path(ours.origin).parents[1]}\n")  # after its own


def main() -> None:
    """Print the Python of a peer's environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    try:
        print(python_of(parser.parse_args().peer))
    except NotInstalled as error:
        sys.exit(f"{parser.prog}: {error}")


if __name__ == "__main__":
    main()
