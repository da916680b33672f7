"""Set-up installs the charting library that uplot.lock names, and no other."""
import base64
import hashlib
import importlib.util
import io
import tarfile

import pytest

from tests.support import tree


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("get_uplot", str(tree.ROOT / "scripts/get_uplot.py"))
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def archive_of(names):
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as packed:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(name)
            packed.addfile(member, io.BytesIO(name.encode()))
    return written.getvalue()


def digest_of(data):
    return "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()


def test_the_lock_names_one_package_with_a_digest(script):
    package = script.locked(script.LOCK.read_text())
    assert package.name == "uplot" and len(base64.b64decode(package.digest[len("sha512-"):])) == 64


@pytest.mark.parametrize("text", ["", "uplot 1.6.32", "uplot 1 sha1-x", "a 1 sha512-x\nb 2 sha512-x"])
def test_another_lock_is_refused(script, text):
    with pytest.raises(script.DigestError, match="one line"):
        script.locked(text)


def test_the_files_and_the_license_are_installed_and_nothing_else(script, tmp_path):
    data = archive_of([*script.FILES, "package/dist/more.js", "package/../../outside"])
    package = script.Locked("uplot", "1", digest_of(data))
    folder = tmp_path / "uplot"
    for _ in range(2):
        script.install(package, data, folder)
        assert {path.name for path in folder.iterdir()} == {*script.FILES.values(), script.STAMP}
        assert script.is_installed(package.digest, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["uplot"]
    assert (folder / "LICENSE").read_text() == "package/LICENSE"
    assert not script.is_installed("sha512-other", folder)


def test_a_package_with_another_digest_changes_nothing(script, tmp_path):
    data = archive_of(script.FILES)
    with pytest.raises(script.DigestError, match="Nothing was installed"):
        script.install(script.Locked("uplot", "1", digest_of(data + b"x")), data, tmp_path / "uplot")
    assert list(tmp_path.iterdir()) == []


def test_without_npm_there_is_one_line_and_no_failure(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(script, "is_installed", lambda digest: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert script.main() == 0
    assert capsys.readouterr().err == "npm is missing, so the dashboard shows tables instead of charts\n"
