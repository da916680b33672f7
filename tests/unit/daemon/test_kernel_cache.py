"""Each state of the kernel sources has a folder of compiled code that is ours alone."""
import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ascpipe.daemon import kernel_cache
from ascpipe.errors import RunDirError
from ascpipe.layout import kernel_library

V2 = "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3"
V3 = V2 + " abm avx avx2 bmi1 bmi2 f16c fma movbe xsave"

ROOT = Path(__file__).resolve().parents[3]


def test_the_folder_is_ours_alone_and_the_same_for_the_same_sources(tmp_path):
    path = kernel_cache.prepare(str(tmp_path / "cache"))
    assert os.stat(path).st_mode & 0o777 == 0o700
    assert kernel_cache.prepare(str(tmp_path / "cache")) == path


def test_a_change_of_any_source_changes_the_folder(tmp_path, monkeypatch):
    source = tmp_path / "kernel.py"
    source.write_text("a = 1")
    monkeypatch.setattr(kernel_library, "sources", lambda: [source])
    before = kernel_library.sources_digest.__wrapped__()
    source.write_text("a = 2")
    assert kernel_library.sources_digest.__wrapped__() != before


def test_what_is_compiled_and_what_it_imports_of_ours_counts_as_source():
    """A number of ``words.py`` is a constant in the code of every kernel that imports it."""
    sources = {os.path.relpath(path, ROOT) for path in kernel_library.sources()}
    compiled = {path for folder in ("ascpipe", "workers") for path in ROOT.glob(folder + "/**/*.py")
                if re.search("^ *@(entry|inner|intrinsic|register_jitable)", path.read_text(), re.M)}
    assert len(compiled) > 10
    for path in compiled:
        assert os.path.relpath(path, ROOT) in sources
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "ascpipe":
                modules = [node.module.split(".")] + [node.module.split(".") + [name.name] for name in node.names]
                files = {os.path.join(*module) + ".py" for module in modules if ROOT.joinpath(*module).with_suffix(
                    ".py").exists()}
                assert files, (path, node.module)
                assert files <= sources, path


def test_decisions_that_are_not_compiled_do_not_cost_a_compilation():
    sources = {os.path.relpath(path, ROOT) for path in kernel_library.sources()}
    assert {os.path.dirname(path) for path in sources} == {"ascpipe/kernels", "ascpipe/layout"}


def test_old_folders_go_and_a_few_stay(tmp_path):
    for age in range(10):
        old = tmp_path / "kernels-{:016x}".format(age)
        old.mkdir(mode=0o700)
        (old / "f").write_text("")
        os.utime(str(old), (age, age))
    (tmp_path / "notes").mkdir()
    tmp_path.chmod(0o700)
    path = kernel_cache.prepare(str(tmp_path))
    left = sorted(os.listdir(str(tmp_path)))
    assert left == sorted([os.path.basename(path), "notes"] + ["kernels-{:016x}".format(age) for age in range(6, 10)])


def test_clearing_leaves_the_folder_and_follows_no_link(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "precious").write_text("x")
    folder = tmp_path / "cache"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file").write_text("")
    (folder / "link").symlink_to(tmp_path / "target")
    kernel_cache.clear(str(folder))
    assert os.listdir(str(folder)) == []
    assert (tmp_path / "target" / "precious").exists()


def test_without_a_setting_it_lies_in_the_cache_of_the_user(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert kernel_cache.base_dir("") == "/somewhere/ascpipe"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/a")
    assert kernel_cache.base_dir("") == "/home/a/.cache/ascpipe"


def test_a_place_where_nothing_can_be_made_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirError, match="ASCPIPE_CACHE_DIR"):
        kernel_cache.prepare(str(tmp_path / "file" / "cache"))


def test_that_kernels_are_compiled_is_said_where_there_are_none_and_no_one_else_will_do_it(tmp_path):
    folder = kernel_cache.prepare(str(tmp_path / "cache"))
    said = kernel_cache.compile_notice(folder, {})
    assert folder in said and "ascpipe warmup" in said and "\n" not in said
    assert not kernel_cache.compile_notice(folder, {"NUMBA_DISABLE_JIT": "1"})  # nothing is compiled
    for name, own in (("kernels_of_another_installation", False), (kernel_library.NUMBA_FOLDER, True)):
        os.mkdir(os.path.join(folder, name))
        Path(folder, name, "kernel.f-1.py37m.nbi").write_bytes(b"")
        assert bool(kernel_cache.compile_notice(folder, {})) != own


def test_numba_keeps_what_it_compiles_of_this_installation_where_that_is_counted(tmp_path):
    script = "from ascpipe.kernels import atomics"
    environment = dict(os.environ, NUMBA_CACHE_DIR=str(tmp_path), KERNEL_LIBRARY="")
    assert kernel_cache.count(str(tmp_path)) == 0
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=str(tmp_path), check=True, timeout=120)
    assert kernel_cache.count(str(tmp_path)) > 0


@pytest.mark.parametrize("flags, levels", [
    ("", []), (V2.replace(" popcnt", ""), []), (V2, ["x86-64-v2"]), (V3.replace(" movbe", ""), ["x86-64-v2"]),
    (V3, ["x86-64-v3", "x86-64-v2"]), (V3 + " avx512f", ["x86-64-v3", "x86-64-v2"])])
def test_a_processor_has_the_levels_of_which_it_has_all_instructions(flags, levels):
    assert kernel_library.levels_of(("fpu " + flags).split()) == levels


def test_why_no_installed_library_fits_is_said_where_there_are_some():
    names = ["library.c", "library-0123-x86-64-v2.cpython-37m.so"]
    assert kernel_cache.mismatch_reason(["library.c"], {"flags": ""}) == ""
    assert "x86-64-v2, and this one lacks popcnt" in kernel_cache.mismatch_reason(
        names, {"flags": V2.replace(" popcnt", "")})
    assert "another Python" in kernel_cache.mismatch_reason(names, {"flags": V3})


def test_the_installed_library_for_the_best_level_is_loaded_before_one_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache, "levels", lambda: ["x86-64-v3", "x86-64-v2"])
    monkeypatch.setattr(kernel_cache, "installed_folder", lambda: str(tmp_path))
    cache = kernel_cache.prepare(str(tmp_path / "cache"))
    cached = Path(cache, kernel_cache.library_name())
    cached.write_bytes(b"machine code")
    kernel_cache.seal(cache)
    assert kernel_cache.library(cache, {}) == str(cached)
    for level in ("x86-64-v2", "x86-64-v3"):
        path = tmp_path / kernel_library.file_name(level)
        path.write_bytes(b"")
        assert kernel_cache.library(cache, {}) == str(path)
    assert kernel_cache.library(cache, {"NUMBA_BOUNDSCHECK": "1"}) == ""
