"""The C++ side of shared memory has the bytes of the Python side: generated, compiled, printed and compared."""
import re
import subprocess

import pytest

from ascpipe.layout import bells, calls, declaring, generate, initial_kinds, structs, ticket, words
from ascpipe.layout.ring_shape import PART_ARRAYS, part_bytes
from tests.support import tree

PARTS = [(0, 0), (1, 1), (7, 0), (8, 3), (16, 1), (1000, 26), (65537, 2)]

#: What the trainer never reads.
FOR_PYTHON_ALONE = ("CHANNELS", "SESSION_DISKS_OFFSET", "MAX_DISKS")

PROGRAM = """
#include <cstdio>
#include "core/calls.gen.h"
#include "core/layout.h"
using namespace ascpipe::layout;
template <typename T, typename M> constexpr std::size_t SizeOf(M T::*) {{ return sizeof(M); }}
int main() {{
{lines}
}}
"""


def constants():
    """Name in C++ -> value, of every number of ascpipe/layout that C++ knows."""
    numbers = {name: value for module in (structs, words, ticket, bells) for name, value in vars(module).items()
               if isinstance(value, int) and re.match("[A-Z]", name)}
    numbers.update({"INITIAL_" + name: value for name, value in vars(initial_kinds).items() if name.isupper()})
    numbers["LAYOUT_HASH"] = structs.layout_hash()
    return {generate.cpp_name(name): value for name, value in numbers.items() if name not in FOR_PYTHON_ALONE}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the header's compiled values are, by a name like ``Ring.head.offset``."""
    lines = []
    for struct, dtype in declaring.STRUCTS.items():
        lines.append('std::printf("{0}.size %zu\\n", sizeof({0}));'.format(struct))
        for field in dtype.names:
            lines.append('std::printf("{0}.{1}.offset %zu\\n", offsetof({0}, {1}));'.format(struct, field))
            lines.append('std::printf("{0}.{1}.size %zu\\n", SizeOf(&{0}::{1}));'.format(struct, field))
    for struct in calls.STRUCTURES:
        lines += ['std::printf("{0}.{1}.offset %zu\\n", offsetof(ascpipe::{0}, {1}));'.format(struct.__name__, field)
                  for field, _ in struct._fields_]
    for constant in constants():
        lines.append('std::printf("{0} %lld\\n", static_cast<long long>({0}));'.format(constant))
    for ids, specs in PARTS:
        lines.append("{{ Part part; std::printf(\"part.{0}.{1}.end %lld\\n\", "
                     "static_cast<long long>(PlacePart(&part, {0}, {1}, 4096)));".format(ids, specs))
        for field in ["specs"] + [field for field, _ in PART_ARRAYS]:
            lines.append('std::printf("part.{0}.{1}.{2} %lld\\n", static_cast<long long>(part.{2}));'.format(
                ids, specs, field))
        lines.append("}")
    folder = tmp_path_factory.mktemp("layout")
    generate.generate(folder)
    source, program = folder / "print_layout.cc", folder / "print_layout"
    source.write_text(PROGRAM.format(lines="\n".join(lines)))
    subprocess.run(["g++", "-std=c++14", "-Wall", "-Wextra", "-Werror", "-Wno-invalid-offsetof", "-I", str(folder),
                    "-I", str(tree.ROOT / "tfops/src"), str(source), "-o", str(program)], check=True)
    output = subprocess.run([str(program)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {key: int(value) for key, value in (line.split() for line in output.splitlines())}


@pytest.mark.parametrize("struct", sorted(declaring.STRUCTS))
def test_every_field_has_its_python_offset_and_size(struct, printed):
    dtype = declaring.STRUCTS[struct]
    expected = {"{}.size".format(struct): dtype.itemsize}
    for field, (kind, offset) in ((field, dtype.fields[field][:2]) for field in dtype.names):
        expected["{}.{}.offset".format(struct, field)] = offset
        expected["{}.{}.size".format(struct, field)] = kind.itemsize
    assert {key: printed[key] for key in expected} == expected


@pytest.mark.parametrize("struct", calls.STRUCTURES)
def test_arguments_of_a_call_lie_where_ctypes_puts_them(struct, printed):
    for field, _ in struct._fields_:
        assert printed["{}.{}.offset".format(struct.__name__, field)] == getattr(struct, field).offset, field


def test_every_constant_has_its_python_value(printed):
    expected = constants()
    assert len(expected) > 60
    assert {name: printed[name] for name in expected} == expected


def test_every_field_has_a_writer_in_its_comment_on_both_sides():
    text = generate.layout_header()
    writers = r"(S|P|K|T|W|D|all|owner)\b"
    for struct, comments in declaring.COMMENTS.items():
        assert list(comments) == list(declaring.STRUCTS[struct].names)
        for field, comment in comments.items():
            assert re.match(writers, comment), "{}.{}: {}".format(struct, field, comment)
            assert re.search(r" {}(\[\d+\])?;  // {}\n".format(field, re.escape(comment)), text), field


def test_a_header_whose_text_is_the_same_is_not_written_again(tmp_path):
    generate.generate(tmp_path)
    files = sorted(tmp_path.glob("core/*"))
    assert [file.name for file in files] == ["calls.gen.h", "error_codes.gen.h", "layout.gen.h"]
    times = [file.stat().st_mtime_ns for file in files]
    generate.generate(tmp_path)
    assert [file.stat().st_mtime_ns for file in files] == times
    files[0].write_text("something else")
    generate.generate(tmp_path)
    assert files[0].read_text() == generate.calls_header()


def test_no_field_overlaps_another():
    for struct, dtype in declaring.STRUCTS.items():
        end = 0
        for field in sorted(dtype.names, key=lambda name: dtype.fields[name][1]):
            kind, offset = dtype.fields[field][:2]
            assert offset >= end, "{}.{} begins at {}, the one before ends at {}".format(struct, field, offset, end)
            end = offset + kind.itemsize
        assert end <= dtype.itemsize


def test_every_wait_has_a_sentence():
    reasons = {value for name, value in vars(words).items() if name.startswith("WAIT_") and name != "WAIT_SENTENCES"}
    assert set(words.WAIT_SENTENCES) == reasons == set(range(len(reasons)))


def test_a_ticket_is_its_run_and_its_sequence():
    for run in (1, 3, ticket.MOST_RUNS):
        for sequence in (1, 77, ticket.SEQUENCE_MASK):
            number = run << ticket.SEQUENCE_BITS | sequence
            assert 0 < number < 2 ** 63
            assert (number >> ticket.SEQUENCE_BITS, ticket.sequence_of(number)) == (run, sequence)


@pytest.mark.parametrize("ids, specs", PARTS)
def test_a_part_is_placed_as_python_computes_it(ids, specs, printed):
    prefix = "part.{}.{}.".format(ids, specs)
    assert printed[prefix + "end"] - 4096 == part_bytes(ids, specs)
    offset = 4096
    assert printed[prefix + "specs"] == offset
    offset += specs * structs.SPEC.itemsize
    for field, bytes_per_id in PART_ARRAYS:
        assert printed[prefix + field] == offset, field
        offset += structs.align(bytes_per_id * ids)


def test_the_arrays_of_a_part_are_its_offset_fields():
    place = {name: structs.PART.fields[name][1] for name in structs.PART.names}
    offsets = [name for name in structs.PART.names if place["specs"] < place[name] < place["unique_count"]]
    assert [name for name, _ in PART_ARRAYS] == offsets
