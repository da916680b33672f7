"""Download a CPython 3.7 into .python/ of this tree (``make python``). The script runs with any Python 3.6 or newer.

The interpreter is a build of the project python-build-standalone, whose releases contain archives of CPython 3.7. The
digest below is the published digest of the archive. A file with another digest is not unpacked.
"""
import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIRROR = "https://github.com/astral-sh/python-build-standalone/releases/download"
ARCHIVE = "20200822/cpython-3.7.9-x86_64-unknown-linux-gnu-pgo-20200823T0036.tar.zst"
SHA256 = "c6d6256d13e929e77e7ee6e53470fe63ad19d173fee6d56bb1b2dbda67081543"
NAME = "cpython-3.7.9"

_TIMEOUT_S = 60  # for each piece of the download
_PIECE = 1 << 20
_TOLD = 5 << 20  # number of bytes between two lines of progress
_MISSING = 2


class Refused(Exception):
    """CPython cannot be installed. The text contains the reason and the recommended action."""


def install(into: Path, mirror: str = MIRROR, sha256: str = SHA256) -> Path:
    """Download, check and unpack CPython unless it is already installed.

    Args:
        into: parent folder of the installation.
        mirror: address of the releases.
        sha256: expected digest of the archive.

    Returns:
        The path of the interpreter.

    Raises:
        Refused: the installation failed. No files remain in ``into``.
    """
    python = into / NAME / "bin" / "python3.7"
    if python.exists():
        return python
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        raise Refused("TensorFlow 1.15.5 has packages only for Linux on x86_64; this is {} on {}".format(
            platform.system(), platform.machine()))
    if shutil.which("zstd") is None:
        raise Refused("zstd is missing, which unpacks the archive (Debian: apt-get install zstd)")
    into.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=str(into)) as folder:
        archive = Path(folder, "archive.tar.zst")
        _fetch(mirror.rstrip("/") + "/" + ARCHIVE, archive, sha256)
        print("python: unpacking it", file=sys.stderr, flush=True)
        unpacked = subprocess.run(["tar", "--zstd", "-xf", str(archive), "-C", folder, "python/install"], check=False)
        if unpacked.returncode != 0:
            raise Refused("the archive cannot be unpacked: tar exited with {}".format(unpacked.returncode))
        os.replace(str(Path(folder, "python/install")), str(into / NAME))  # atomic, so never incomplete
    return python


def _fetch(address: str, path: Path, sha256: str) -> None:
    """Download a file, and check its digest."""
    print("python: downloading {}".format(address), file=sys.stderr, flush=True)
    digest, done, told = hashlib.sha256(), 0, 0
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer, path.open("wb") as file:  # noqa: S310
            for piece in iter(lambda: answer.read(_PIECE), b""):
                file.write(piece)
                digest.update(piece)
                done += len(piece)
                if done - told >= _TOLD:
                    told = done
                    print("python: {} MiB".format(done >> 20), file=sys.stderr, flush=True)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise Refused("{} cannot be downloaded: {}. Behind a proxy set https_proxy; PYTHON_MIRROR names a copy of the "
                      "releases".format(address, error)) from error
    if digest.hexdigest() != sha256:
        raise Refused("{} has SHA-256 {}, expected {}. It is another file, and was removed".format(
            address, digest.hexdigest(), sha256))


def main() -> int:
    """Return the exit code. It is 0, or 2 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="make python", description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=ROOT / ".python", help="parent folder of the installation")
    options = parser.parse_args()
    try:
        python = install(options.into, os.environ.get("PYTHON_MIRROR") or MIRROR)
    except Refused as error:
        print("python: {}".format(error), file=sys.stderr)
        return _MISSING
    print("python: {}; `make setup` finds it".format(python), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
