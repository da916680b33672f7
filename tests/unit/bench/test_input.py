"""The case `input`: files are in the format of TFRecord, and both sides of a variant read the same file."""
import struct

import numpy as np
import pytest

from bench import input_sides, parse_program, record_files, usual_input, usual_program, workloads
from bench.cases import input as input_case
from bench.usual_model import LINES, OURS, PLAIN, RECORDS, SINGLE_RECORDS, Setting


def test_crcs_are_those_of_files_that_tensorflow_writes():
    unmasked = (0xE3069283 >> 15 | 0xE3069283 << 17) & 0xFFFFFFFF  # CRC-32C of 123456789, rotated
    crcs = record_files.masked_crcs([b"123456789", struct.pack("<Q", 0), b""])
    assert crcs.dtype == np.uint32
    assert int(crcs[0]) == (unmasked + 0xA282EAD8) & 0xFFFFFFFF
    assert int(crcs[2]) == 0xA282EAD8


def test_integers_are_written_in_the_shortest_form():
    column = record_files.integers(np.array([0, 127, 128, 300, 99999]), np.array([2, 1, 2]))
    assert column.payload == b"\x00\x7f\x80\x01\xac\x02\x9f\x8d\x06"
    assert column.ends.tolist() == [2, 4, 9]


def test_lines_have_a_label_floats_and_ids_and_a_line_of_names(tmp_path):
    setting = Setting(OURS, 2, 3, keys=50, batches=2, source=LINES)
    usual_input.write_file(setting, str(tmp_path / "lines.csv"))
    head, *lines = (tmp_path / "lines.csv").read_text().splitlines()
    assert head.split(",") == ["label", *("I{}".format(number) for number in range(1, 14)), "C1", "C2"]
    assert len(lines) == 6
    label, *floats = lines[0].split(",")[:14]
    assert label in "01" and all(0 <= float(text) < 1 for text in floats)
    assert all(0 <= int(text) < 50 for line in lines for text in line.split(",")[14:])


def test_programs_and_parsers_read_the_same_file_if_its_content_is_the_same(monkeypatch):
    monkeypatch.setenv(workloads.SMALL_VARIABLE, "1")
    setting = Setting(OURS, 26, 64, keys=1000, batches=2, source=RECORDS)
    path = input_sides._with_file(setting).data
    assert input_sides._with_file(setting._replace(source=SINGLE_RECORDS, side=PLAIN)).data == path
    parsing = parse_program.Setting(OURS, 26, floats=usual_input.FLOATS, rows=64, keys=1000, batches=2)
    assert input_sides._with_file(parsing).data == path
    assert input_sides._with_file(setting._replace(source=LINES)).data != path
    assert input_sides._with_file(parsing._replace(columns=25)).data != path


def test_a_plain_side_that_has_imported_ascpipe_is_an_error(monkeypatch):
    monkeypatch.setitem(usual_program.sys.modules, "ascpipe.tf", None)
    with pytest.raises(RuntimeError, match=r"plain TensorFlow was to be measured, but ascpipe\.tf"):
        usual_program.Turns(PLAIN).steps_to_do()


def test_each_variant_of_the_input_has_a_goal():
    assert set(input_case.CASE.goals) == set(input_case.CASE.variants) >= set(input_case.CASE.repeats_of)
