"""Install uPlot, the charting library of the dashboard, into ``ascpipe/dashboard/uplot``.

``uplot.lock`` has the version and the digest. npm knows its registry. Without npm or without network, the script prints
one line and succeeds, because the dashboard then shows tables.

::

    python3 scripts/get_uplot.py

Exit codes: 0 the library is installed or cannot be fetched, 1 the package has another digest.
"""
import base64
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "uplot.lock"
FOLDER = ROOT / "ascpipe/dashboard/uplot"
FILES = {"package/dist/uPlot.iife.min.js": "uPlot.iife.min.js", "package/dist/uPlot.min.css": "uPlot.min.css",
         "package/LICENSE": "LICENSE"}
STAMP = "digest"  #: file in FOLDER with the digest of the installed package
LIMIT_S = 60.0  #: maximum duration of npm


class Locked(NamedTuple):
    """Package that the lock file names. ``digest`` is an integrity string of npm, ``sha512-`` and base64."""

    name: str
    version: str
    digest: str


class FetchError(Exception):
    """npm is missing, or cannot fetch the package."""


class DigestError(Exception):
    """The package differs from the lock file. Nothing was installed."""


def locked(text: str) -> Locked:
    """Parse the lock file."""
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    if len(lines) != 1 or len(lines[0]) != 3 or not lines[0][2].startswith("sha512-"):
        raise DigestError("uplot.lock must have one line: name, version, sha512-...")
    return Locked(*lines[0])


def is_installed(digest: str, folder: Path = FOLDER) -> bool:
    """Return whether the folder has the files of the package with this digest."""
    try:
        return (folder / STAMP).read_text() == digest and all((folder / name).exists() for name in FILES.values())
    except OSError:
        return False


def fetched(package: Locked) -> bytes:
    """Return the package as a compressed archive.

    Raises:
        FetchError: npm is missing, or cannot fetch the package.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise FetchError("npm is missing")
    with tempfile.TemporaryDirectory(prefix="uplot-") as folder:
        try:
            subprocess.run([npm, "pack", "--silent", "{}@{}".format(package.name, package.version)], cwd=folder,
                           check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            archive, = Path(folder).glob("*.tgz")
            return archive.read_bytes()
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            raise FetchError("npm cannot fetch {} {} ({})".format(package.name, package.version, type(error).__name__)
                             ) from error


def install(package: Locked, archive: bytes, folder: Path = FOLDER) -> None:
    """Check the digest of an archive, and replace the folder by its files.

    Raises:
        DigestError: the archive has another digest.
    """
    digest = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if digest != package.digest:
        raise DigestError("{} {} has the digest {}, and uplot.lock has {}. Nothing was installed".format(
            package.name, package.version, digest, package.digest))
    shutil.rmtree(str(folder), ignore_errors=True)
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        for member, name in FILES.items():
            file = packed.extractfile(member)
            (folder / name).write_bytes(file.read() if file is not None else b"")
    (folder / STAMP).write_text(digest)  # last, so that an incomplete folder is not taken for the package


def main() -> int:
    """Install the library if it is not installed. Return the exit code."""
    try:
        package = locked(LOCK.read_text())
        if not is_installed(package.digest):
            install(package, fetched(package))
    except FetchError as error:
        print("{}, so the dashboard shows tables instead of charts".format(error), file=sys.stderr)
    except DigestError as error:
        print(str(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
