"""The C++ side of shared memory has the bytes of the Python side: compiled, printed and compared."""
import re
import subprocess

import pytest

from ascpipe.layout import structs, words
from tests.support import tree

HEADER = tree.ROOT / "tfops/src/core/layout.h"
PARTS = [(0, 0), (1, 1), (7, 0), (8, 3), (16, 1), (1000, 26), (65537, 2)]

PROGRAM = """
#include <cstdio>
#include "core/layout.h"
using namespace ascpipe::layout;
template <typename T, typename M> constexpr std::size_t SizeOf(M T::*) {{ return sizeof(M); }}
int main() {{
{lines}
}}
"""


def python_constant(cpp_name):
    """kSessionBellsOffset -> SESSION_BELLS_OFFSET"""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cpp_name[1:]).upper()


def header_text():
    return re.sub(r"//[^\n]*", "", HEADER.read_text())


def header_constants():
    return re.findall(r"\b(k[A-Z]\w*)\s*=", header_text())


def header_members(struct):
    body = re.search(r"struct {} \{{(.*?)\}};".format(struct), header_text(), re.S).group(1)
    members = re.findall(r"(\w+)(?:\[[^;]*\])?;", body)
    return [member for member in members if not re.match(r"unused\d*$", member)]


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the header's compiled values are, by a name like ``Ring.head.offset``."""
    lines = []
    for struct, dtype in structs.STRUCTS.items():
        lines.append('std::printf("{0}.size %zu\\n", sizeof({0}));'.format(struct))
        for field in dtype.names:
            lines.append('std::printf("{0}.{1}.offset %zu\\n", offsetof({0}, {1}));'.format(struct, field))
            lines.append('std::printf("{0}.{1}.size %zu\\n", SizeOf(&{0}::{1}));'.format(struct, field))
    for constant in header_constants():
        lines.append('std::printf("{0} %lld\\n", static_cast<long long>({0}));'.format(constant))
    for ids, specs in PARTS:
        lines.append("{{ Part part; std::printf(\"part.{0}.{1}.end %lld\\n\", "
                     "static_cast<long long>(PlacePart(&part, {0}, {1}, 4096)));".format(ids, specs))
        for field in ["specs"] + [field for field, _ in structs.PART_ARRAYS]:
            lines.append('std::printf("part.{0}.{1}.{2} %lld\\n", static_cast<long long>(part.{2}));'.format(
                ids, specs, field))
        lines.append("}")
    folder = tmp_path_factory.mktemp("layout")
    source, program = folder / "print_layout.cc", folder / "print_layout"
    source.write_text(PROGRAM.format(lines="\n".join(lines)))
    subprocess.run(["g++", "-std=c++14", "-Wall", "-Wextra", "-Werror", "-Wno-invalid-offsetof",
                    "-I", str(tree.ROOT / "tfops/src"), str(source), "-o", str(program)], check=True)
    output = subprocess.run([str(program)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {key: int(value) for key, value in (line.split() for line in output.splitlines())}


@pytest.mark.parametrize("struct", sorted(structs.STRUCTS))
def test_every_field_has_its_python_offset_and_size(struct, printed):
    dtype = structs.STRUCTS[struct]
    expected = {"{}.size".format(struct): dtype.itemsize}
    for field, (kind, offset) in ((field, dtype.fields[field][:2]) for field in dtype.names):
        expected["{}.{}.offset".format(struct, field)] = offset
        expected["{}.{}.size".format(struct, field)] = kind.itemsize
    assert {key: printed[key] for key in expected} == expected


@pytest.mark.parametrize("struct", sorted(structs.STRUCTS))
def test_both_sides_name_the_same_fields(struct):
    assert header_members(struct) == sorted(structs.STRUCTS[struct].names,
                                            key=lambda field: structs.STRUCTS[struct].fields[field][1])


def test_every_struct_of_the_header_has_a_python_twin():
    assert set(re.findall(r"struct (\w+) \{", header_text())) == set(structs.STRUCTS)


def test_no_field_overlaps_another():
    for struct, dtype in structs.STRUCTS.items():
        end = 0
        for field in sorted(dtype.names, key=lambda name: dtype.fields[name][1]):
            kind, offset = dtype.fields[field][:2]
            assert offset >= end, "{}.{} begins at {}, the one before ends at {}".format(struct, field, offset, end)
            end = offset + kind.itemsize
        assert end <= dtype.itemsize


@pytest.mark.parametrize("constant", header_constants())
def test_every_constant_of_the_header_has_its_python_value(constant, printed):
    name = python_constant(constant)
    values = {getattr(module, name) for module in (structs, words) if hasattr(module, name)}
    assert values == {printed[constant]}, "{} is {}".format(name, printed[constant])


def test_every_word_is_in_the_header(printed):
    named = {python_constant(constant) for constant in header_constants()}
    assert set(words.WORD_NAMES.values()) <= named
    assert {name for name in vars(words) if re.match(r"(WAIT|PLAN|CUT)_", name)} - {"WAIT_SENTENCES"} <= named


@pytest.mark.parametrize("ids, specs", PARTS)
def test_a_part_is_placed_as_python_computes_it(ids, specs, printed):
    prefix = "part.{}.{}.".format(ids, specs)
    assert printed[prefix + "end"] - 4096 == structs.part_bytes(ids, specs)
    offset = 4096
    assert printed[prefix + "specs"] == offset
    offset += specs * structs.SPEC.itemsize
    for field, bytes_per_id in structs.PART_ARRAYS:
        assert printed[prefix + field] == offset, field
        offset += structs.align(bytes_per_id * ids)


def test_the_arrays_of_a_part_are_its_offset_fields():
    place = {name: structs.PART.fields[name][1] for name in structs.PART.names}
    offsets = [name for name in structs.PART.names if place["specs"] < place[name] < place["unique_count"]]
    assert [name for name, _ in structs.PART_ARRAYS] == offsets
