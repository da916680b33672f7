"""The build driver compiles what has changed, and nothing else."""
import json
import os
import shutil

import pytest

import ascpipe
from ascpipe.layout import structs
from ascpipe.tfops import build, kept_builds, load, units


def point_to(folder, monkeypatch):
    """From now on the tree with the ops is that folder."""
    for name, path in (("SOURCES", folder / "src"), ("OBJECTS", folder / "build"), ("HERE", folder),
                       ("GENERATED", folder / "build" / "generated"),
                       ("LIBRARY", folder / "lib.so"), ("FILES_LIBRARY", folder / "libdisk.so"),
                       ("INFO", folder / "build_info.json")):
        monkeypatch.setattr(build, name, path)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two sources of two units and a header; ``compiled()`` brings the library up to date and counts units."""
    core = tmp_path / "src" / "core"
    core.mkdir(parents=True)
    (core / "number.h").write_text("int Number();\n")
    (core / "number.cc").write_text('#include "core/number.h"\nint Number() { return 7; }\n')
    (core / "other.cc").write_text("int Other() { return 8; }\n")
    point_to(tmp_path, monkeypatch)
    monkeypatch.setattr(units, "ALONE", ("core/number.cc", "core/other.cc"))
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
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


@pytest.mark.parametrize("seconds", [1, 2 ** 32])
def test_another_time_of_a_file_compiles_nothing(project, seconds):
    compiled()
    os.utime(str(project / "other.cc"), (seconds, seconds))
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


def test_other_flags_compile_everything(project, monkeypatch):
    compiled()
    monkeypatch.setattr(units, "FLAGS", (*units.FLAGS, "-DOTHER"))
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
    assert not build.FILES_LIBRARY.exists()
    before = build.LIBRARY.read_bytes()
    (project.parent / "disk").mkdir()
    (project.parent / "disk" / "rows.cc").write_text("int Rows() { return 1; }\n")
    assert compiled() == 1
    assert b"Rows" in build.FILES_LIBRARY.read_bytes()
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


def test_sources_that_are_compiled_together_are_one_unit(project, monkeypatch):
    monkeypatch.setattr(units, "ALONE", ())
    monkeypatch.setattr(units, "COUNTS", {"core": 1})
    (project / "far.cc").write_text("namespace {\nstruct Own {};\n}\n"
                                    "struct Has { Own own; };\nint Far(Has) { return 1; }\n")
    assert compiled() == 1
    assert compiled() == 0
    (project / "number.h").write_text("int Number();  // changed\n")
    assert compiled() == 1


def test_a_failure_ends_the_other_compilers_and_the_next_build_goes_on(project):
    (project / "other.cc").write_text("int Other() { return nowhere; }\n")
    assert build.main(["--quiet"]) == 1
    (project / "other.cc").write_text("int Other() { return 9; }\n")
    assert 1 <= compiled() <= 2
    assert build.LIBRARY.exists()


def test_objects_of_sources_that_are_gone_are_removed(project):
    compiled()
    (project / "other.cc").unlink()
    (project / "number.cc").write_text('#include "core/number.h"\nint Number() { return 8; }\n')
    assert compiled() == 1
    assert [path.name for path in build.OBJECTS.glob("*.o")] == ["core-number.o"]


# ---- where TensorFlow is not installed yet

def test_what_needs_no_tensorflow_is_compiled_before_it_is_there_and_not_again(project, monkeypatch):
    (project.parent / "ops").mkdir()
    (project.parent / "ops/op.cc").write_text("int Op() { return 1; }\n")
    monkeypatch.setattr(units, "PREFIX_TEXT", "#include <string>\n")
    flags = dict(build.BEFORE_TENSORFLOW, version="1.15.5", compile=[*build.BEFORE_TENSORFLOW["compile"], "-I/nowhere"])
    monkeypatch.setattr(build, "tensorflow_flags", lambda: flags)
    assert build.build(verbose=False, without_tensorflow=True)[0] == 2
    assert not build.LIBRARY.exists() and not build.INFO.exists()
    assert compiled() == 1
    assert compiled() == 0


# ---- the user's cache

@pytest.fixture
def second(project, tmp_path, monkeypatch):
    """A function that goes to another tree with the same sources, which was built nowhere."""
    monkeypatch.setattr(units, "LEAST_FOR_PREFIX", 1)

    def go(name):
        folder = tmp_path / name
        shutil.copytree(str(tmp_path / "src"), str(folder / "src"))
        point_to(folder, monkeypatch)
        return folder / "src/core"

    return go


def test_a_second_tree_takes_the_libraries_from_the_cache_and_compiles_what_is_edited_there(second):
    compiled()
    first = build.LIBRARY.read_bytes()
    core = second("second")
    assert compiled() == 0
    assert build.LIBRARY.read_bytes() == first and os.access(str(build.LIBRARY), os.X_OK)
    assert load.read_info(build.INFO)["layout"] == structs.layout_hash()
    (core / "other.cc").write_text("int Other() { return 9; }\n")
    assert compiled() == 1
    assert build.LIBRARY.read_bytes() != first


@pytest.mark.parametrize("change", ["source", "header", "flags", "compiler", "tensorflow"])
def test_another_source_flag_compiler_or_tensorflow_is_another_build(second, change, monkeypatch):
    compiled()
    core = second("second")
    if change in ("source", "header"):
        path = core / ("other.cc" if change == "source" else "number.h")
        path.write_text(path.read_text() + "// changed\n")
    elif change == "flags":
        monkeypatch.setattr(units, "FLAGS", (*units.FLAGS, "-DOTHER"))
    elif change == "compiler":
        monkeypatch.setattr(build, "_compiler_version", lambda: "g++ 99")
    else:
        monkeypatch.setattr(build, "tensorflow_flags", lambda: dict(build.BEFORE_TENSORFLOW, version="1.15.0"))
    assert compiled() == 2


def test_a_damaged_build_is_removed_and_not_used(second):
    compiled()
    (folder,) = kept_builds.folders("")
    with open(os.path.join(folder, build.LIBRARY.name), "ab") as library:
        library.write(b"x")
    second("second")
    assert compiled() == 2
    second("third")
    assert compiled() == 0


def test_a_cache_that_others_may_write_to_is_not_used(second, tmp_path, capsys):
    compiled()
    (folder,) = kept_builds.folders("")
    os.chmod(folder, 0o777)
    second("second")
    assert build.build(verbose=True)[0] == 2
    assert "others may write to it" in capsys.readouterr().err


def test_the_oldest_builds_leave_the_cache(second, project):
    for number in range(kept_builds.KEPT + 2):
        (project / "other.cc").write_text("int Other() {{ return {}; }}\n".format(number))
        compiled()
    assert len(kept_builds.folders("")) == kept_builds.KEPT


# ---- units

def test_a_new_source_changes_one_unit():
    sources = ["ops/{}.cc".format(number) for number in range(30)]
    before, after = set(units.divide(sources)), set(units.divide([*sources, "ops/new.cc"]))
    assert len(before) == units.COUNTS["ops"] and len(before - after) == 1


def test_units_are_the_same_in_each_tree():
    sources = sorted(path.relative_to(build.SOURCES).as_posix() for path in build.SOURCES.glob("*/*.cc"))
    assert units.divide(sources) == units.divide(reversed(sources))
    assert sorted(source for unit in units.divide(sources) for source in unit.sources) == sources
    assert all(len({source.split("/")[0] for source in unit.sources}) == 1 for unit in units.divide(sources))


def test_loops_of_the_core_alone_are_compiled_with_its_flags():
    (core, op) = units.divide(["core/a.cc", "ops/b.cc"])
    assert set(units.LOOP_FLAGS) <= set(units.flags_of(core, ["-I/t"], {}))
    assert not set(units.LOOP_FLAGS) & set(units.flags_of(op, ["-I/t"], {}))
    assert "-isystem/t" in units.flags_of(op, ["-I/t"], {}) and "-isystem/t" not in units.flags_of(core, ["-I/t"], {})
