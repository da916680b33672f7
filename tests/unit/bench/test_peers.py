"""The environment of peers: it is used only if it has the packages of the lock file. Cases without it are skipped."""
import hashlib

import pytest

from bench import __main__ as command
from bench import peers, usual_sides
from bench.cases import usual_large, usual_peers
from bench.usual_model import FBGEMM, OURS, Setting


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A tree with an environment whose stamp is that of the lock file."""
    monkeypatch.setattr(peers, "_LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(peers, "_VENV", str(tmp_path / "venv"))
    monkeypatch.setattr(peers, "PYTHON", "/bin/sh")
    (tmp_path / "venv").mkdir()
    (tmp_path / "lock").write_text("torch==2.1+cpu \\\n    --hash=sha256:0\nfbgemm-gpu-cpu==1.0 \\\n")
    digest = hashlib.sha256((tmp_path / "lock").read_bytes()).hexdigest()
    (tmp_path / "venv/peers.stamp").write_text(digest + "  requirements-peers.lock\n")
    return tmp_path


def test_an_environment_with_the_packages_of_the_lock_file_is_complete(folder):
    assert peers.missing() == ""
    assert peers.versions() == "torch 2.1+cpu, fbgemm-gpu-cpu 1.0"


@pytest.mark.parametrize("name", ["lock", "venv/peers.stamp"])
def test_without_it_or_with_another_lock_file_what_is_missing_is_said(folder, name):
    (folder / name).write_text("other")
    assert peers.missing() == "PyTorch and FBGEMM are not installed; run `make peers`"
    (folder / name).unlink()
    assert "`make peers`" in peers.missing()


def test_a_case_whose_peer_is_missing_is_skipped_with_one_line(folder, capsys):
    (folder / "venv/peers.stamp").unlink()
    assert command.main(["--pattern", "usual_peers", "--markdown", "--json", str(folder / "out.json")]) == 0
    _, line = capsys.readouterr().out.splitlines()
    assert line == "usual_peers  skipped: PyTorch and FBGEMM are not installed; run `make peers`"
    assert not (folder / "out.json").exists()


def test_the_versions_of_the_lock_file_are_a_pair_that_is_named():
    assert peers.versions() == "torch 2.13.0+cpu, fbgemm-gpu-cpu 1.8.0"


def test_only_the_side_of_fbgemm_runs_in_the_environment_of_peers():
    commands = [usual_sides.side_of(Setting(side, 1, 8))._command for side in (OURS, FBGEMM)]
    assert [line[0] == peers.PYTHON for line in commands] == [False, True]


def test_large_tables_are_compared_with_fbgemm_too():
    assert set(usual_large.SETTINGS) < set(usual_peers.SETTINGS) == set(usual_peers.CASE.goals)
