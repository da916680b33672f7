"""Compiled kernels that are not as they were sealed are removed; what was never sealed is left alone."""
import os

import pytest

from ascpipe.daemon import kernel_cache
from ascpipe.layout import kernel_library


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / kernel_library.NUMBA_FOLDER
    made.mkdir()
    for name in ("m.a.py37.nbi", "m.a.py37.1.nbc", "m.b.py37.nbi", "notes.txt"):
        (made / name).write_bytes(name.encode() * 100)
    return made


@pytest.mark.parametrize("damage", [
    lambda data: b"", lambda data: data[:len(data) // 2], lambda data: bytes([data[0] ^ 1]) + data[1:],
    lambda data: data + b"x"], ids=["empty", "half", "one bit", "longer"])
def test_a_file_that_is_not_as_it_was_sealed_is_removed_alone(folder, damage):
    kernel_cache.seal(str(folder.parent))
    path = folder / "m.a.py37.1.nbc"
    path.write_bytes(damage(path.read_bytes()))
    assert kernel_cache.drop_damaged(str(folder.parent)) == ["numba/m.a.py37.1.nbc"]
    assert sorted(os.listdir(str(folder))) == ["m.a.py37.nbi", "m.b.py37.nbi", "notes.txt"]
    assert kernel_cache.drop_damaged(str(folder.parent)) == []


def test_a_file_that_is_new_is_left_alone_until_it_is_sealed(folder):
    kernel_cache.seal(str(folder.parent))
    (folder / "c.nbi").write_bytes(b"c")
    assert kernel_cache.drop_damaged(str(folder.parent)) == []
    kernel_cache.seal(str(folder.parent))
    (folder / "c.nbi").write_bytes(b"d")
    assert kernel_cache.drop_damaged(str(folder.parent)) == [os.path.join(kernel_library.NUMBA_FOLDER, "c.nbi")]


def test_what_is_made_again_after_damage_is_sealed_anew_with_its_index(folder):
    kernel_cache.seal(str(folder.parent))
    (folder / "m.a.py37.1.nbc").write_bytes(b"")
    kernel_cache.drop_damaged(str(folder.parent))
    for name in ("m.a.py37.1.nbc", "m.a.py37.nbi"):
        (folder / name).write_bytes(b"compiled again")
    assert kernel_cache.drop_damaged(str(folder.parent)) == []
    kernel_cache.seal(str(folder.parent))
    (folder / "m.a.py37.nbi").write_bytes(b"")
    assert kernel_cache.drop_damaged(str(folder.parent)) == [os.path.join(kernel_library.NUMBA_FOLDER, "m.a.py37.nbi")]


def test_damage_is_not_sealed_over(folder):
    kernel_cache.seal(str(folder.parent))
    (folder / "m.a.py37.nbi").write_bytes(b"other")
    kernel_cache.seal(str(folder.parent))
    assert kernel_cache.drop_damaged(str(folder.parent)) == [os.path.join(kernel_library.NUMBA_FOLDER, "m.a.py37.nbi")]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe"])
def test_a_seal_that_is_damaged_itself_vouches_for_nothing(folder, content):
    kernel_cache.seal(str(folder.parent))
    (folder.parent / kernel_cache.SEAL).write_bytes(content)
    assert kernel_cache.drop_damaged(str(folder.parent)) == []
    assert kernel_cache.count(str(folder.parent)) == 3


def test_a_seal_that_is_up_to_date_is_not_written_again(folder):
    kernel_cache.seal(str(folder.parent))
    before = os.stat(str(folder.parent / kernel_cache.SEAL)).st_ino
    kernel_cache.seal(str(folder.parent))
    assert os.stat(str(folder.parent / kernel_cache.SEAL)).st_ino == before
    assert sorted(os.listdir(str(folder.parent))) == [kernel_library.NUMBA_FOLDER, kernel_cache.SEAL]


@pytest.fixture
def library(folder):
    """A library of this machine, as if it had been linked."""
    path = folder.parent / kernel_cache.library_name()
    path.write_bytes(b"machine code")
    return path


def test_a_library_is_loaded_only_if_the_seal_vouches_for_it(folder, library):
    whole = str(folder.parent)
    assert kernel_cache.library(whole, {}) == ""
    kernel_cache.seal(whole)
    assert kernel_cache.library(whole, {}) == str(library)
    library.write_bytes(b"machine_code")
    assert kernel_cache.drop_damaged(whole) == [library.name]
    assert kernel_cache.library(whole, {}) == "" and not library.exists()


def test_a_library_for_another_level_is_not_loaded(folder, library, monkeypatch):
    kernel_cache.seal(str(folder.parent))
    monkeypatch.setattr(kernel_cache, "levels", list)
    assert kernel_cache.library(str(folder.parent), {}) == ""


@pytest.mark.parametrize("name", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_where_kernels_are_asked_for_that_no_library_has_none_is_loaded(folder, library, name):
    kernel_cache.seal(str(folder.parent))
    assert kernel_cache.library(str(folder.parent), {name: "0"}) == str(library)
    assert kernel_cache.library(str(folder.parent), {name: "1"}) == ""


def test_a_library_is_no_file_of_numba_that_is_counted(folder, library):
    assert kernel_cache.count(str(folder.parent)) == 3
