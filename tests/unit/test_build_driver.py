"""The build driver compiles what has changed, and nothing else."""
import json
import os
import shutil

import ninja
import pytest

import ascpipe
from ascpipe.layout import structs
from ascpipe.tfops import build, load


def point_to(folder, monkeypatch):
    """From now on the tree with the ops is that folder."""
    for name, path in (("SOURCES", folder / "src"), ("OBJECTS", folder / "build"), ("HERE", folder),
                       ("GENERATED", folder / "build" / "generated"),
                       ("LIBRARY", folder / "lib.so"), ("DISK_LIBRARY", folder / "libdisk.so"),
                       ("INFO", folder / "build_info.json")):
        monkeypatch.setattr(build, name, path)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two sources and a header; ``compiled()`` brings the library up to date and names what was compiled."""
    core = tmp_path / "src" / "core"
    core.mkdir(parents=True)
    (core / "number.h").write_text("int Number();\n")
    (core / "number.cc").write_text('#include "core/number.h"\nint Number() { return 7; }\n')
    (core / "other.cc").write_text("int Other() { return 8; }\n")
    point_to(tmp_path, monkeypatch)
    monkeypatch.setattr(build, "tensorflow_flags", lambda: {"version": "1.15.5", "abi": 0, "compile": [], "link": []})
    return core


def compiled():
    return build.build(verbose=False)[0]


def test_a_second_build_compiles_nothing(project):
    assert compiled() == 2
    assert compiled() == 0
    assert build.LIBRARY.exists()


def test_a_changed_header_compiles_those_who_include_it(project):
    compiled()
    (project / "number.h").write_text("int Number();  // changed\n")
    assert compiled() == 1


def test_an_older_time_compiles_nothing(project):
    compiled()
    os.utime(str(project / "other.cc"), (1, 1))
    assert compiled() == 0


def test_a_tree_that_was_copied_compiles_nothing(project, tmp_path, monkeypatch):
    folder = tmp_path.parent / "a copy"
    compiled()
    shutil.copytree(str(tmp_path), str(folder))
    point_to(folder, monkeypatch)
    assert compiled() == 0
    (folder / "src/core/other.cc").write_text("int Other() { return 9; }\n")
    assert compiled() == 1
    shutil.rmtree(str(folder))


def test_where_there_are_no_sources_it_is_said_that_this_is_a_package(project, tmp_path, capsys):
    shutil.rmtree(str(tmp_path / "src"))
    assert build.main([]) == 1
    said = "E226: {}/src does not exist: this is an installed package"
    assert capsys.readouterr().err.startswith(said.format(tmp_path))


def test_a_script_in_the_place_of_ninja_is_refused_since_it_could_start_itself(project, tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ninja").write_text("#!/bin/sh\nexit 0\n")
    monkeypatch.setattr(ninja, "BIN_DIR", str(tmp_path / "bin"))
    with pytest.raises(build.BuildError, match="bin/ninja is a script and not ninja itself"):
        build.build(verbose=False)


def test_other_flags_compile_everything(project, monkeypatch):
    compiled()
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-DOTHER"))
    assert compiled() == 2


def test_a_source_that_is_gone_leaves_the_library(project):
    compiled()
    before = build.LIBRARY.read_bytes()
    (project / "other.cc").unlink()
    assert compiled() == 0
    assert build.LIBRARY.read_bytes() != before


def test_a_missing_library_is_linked_again(project):
    compiled()
    build.LIBRARY.unlink()
    assert compiled() == 0
    assert build.LIBRARY.exists()


def test_an_error_is_told_in_the_words_of_the_compiler_and_the_next_build_tries_again(project):
    compiled()
    (project / "other.cc").write_text("int Other() { return nowhere; }\n")
    for _ in range(2):
        with pytest.raises(build.BuildError, match=r"(?s)other\.cc.*nowhere"):
            build.build(verbose=False)
    assert build.main(["--quiet"]) == 1
    (project / "other.cc").write_text("int Other() { return 9; }\n")
    assert compiled() == 1


def test_the_sources_of_the_row_engine_make_a_library_of_their_own(project):
    compiled()
    assert not build.DISK_LIBRARY.exists()
    before = build.LIBRARY.read_bytes()
    (project.parent / "disk").mkdir()
    (project.parent / "disk" / "rows.cc").write_text("int Rows() { return 1; }\n")
    assert compiled() == 1
    assert b"Rows" in build.DISK_LIBRARY.read_bytes()
    assert build.LIBRARY.read_bytes() == before


def test_the_build_info_says_what_the_library_was_built_for(project):
    compiled()
    info = json.loads(build.INFO.read_text())
    assert info == {"ascpipe": ascpipe.__version__, "cxx11_abi": 0, "layout": structs.layout_hash(),
                    "tensorflow": "1.15.5"}
    load.check_info(load.read_info(build.INFO), "1.15.5", 0)


def test_a_source_may_include_the_headers_of_the_layout_which_are_written_first(project):
    (project / "other.cc").write_text('#include "core/layout.gen.h"\nint Other() { return 8; }\n')
    assert compiled() == 2
    assert compiled() == 0
