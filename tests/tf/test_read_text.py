"""``asc.data.read`` of CSV and TSV files returns the values of ``tf.io.decode_csv``."""
import runpy

import numpy as np
import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.data import formats
from ascpipe.data.fields import TextSchema, feature_lines
from ascpipe.data.records import RecordFile
from ascpipe.errors import AscpipeError
from tests.tf.test_read import elements, require_same

v1 = tf.compat.v1
SPECS = {"user": tf.io.FixedLenFeature([], tf.int64), "price": tf.io.FixedLenFeature([], tf.float32, 0.5),
         "label": tf.io.FixedLenFeature([], tf.int32), "text": tf.io.FixedLenFeature([], tf.string, "-"),
         "time": tf.io.FixedLenFeature([], tf.float64, 1.25)}
NAMES = ["label", "user", "price", "text", "time"]
LINES = ["{},{},{},{},{}".format(number % 2, number * 7, ["", "1.5", "-2e-3"][number % 3],
                                 ['""', '"a, ""b"""', "plain", '"two\nlines"'][number % 4], ["", "3.25"][number % 2])
         for number in range(50)]


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "clicks.csv"
    file.write_text("\n".join([",".join(NAMES), *LINES]) + "\n")
    return str(file)


def decoded(path, specs, batch_size, delimiter=",", names=NAMES, header=True):
    """What TensorFlow reads."""
    wanted = [name for name in names if name in specs]

    def build():
        defaults = [tf.constant([] if value is None else [value], specs[name].dtype)
                    for name, value in ((name, specs[name].default_value) for name in wanted)]
        dataset = tf.data.experimental.CsvDataset(path, defaults, header=header, field_delim=delimiter,
                                                  select_cols=[names.index(name) for name in wanted])
        return dataset.map(lambda *values: dict(zip(wanted, values))).batch(batch_size)

    return build


def in_order(found):
    return [{name: batch[name] for name in sorted(batch)} for batch in found]


@pytest.mark.parametrize("wanted", [NAMES, ["user", "label"], ["text"], ["label", "price", "time"]], ids=len)
def test_values_equal_those_of_tensorflow(path, wanted):
    specs = {name: SPECS[name] for name in wanted}
    found = in_order(elements(lambda: asc.data.read(path, specs, 16)))
    require_same(found, in_order(elements(decoded(path, specs, 16))))


def test_files_without_a_header_and_with_tabs(tmp_path):
    file = tmp_path / "clicks.tsv"
    file.write_text("1\t5\n0\t-3\n1\t\n")
    specs = {"label": SPECS["label"], "user": tf.io.FixedLenFeature([], tf.int64, 9)}
    found = in_order(elements(lambda: asc.data.read(str(file), specs, 2, columns=["label", "user"])))
    require_same(found, in_order(elements(decoded(str(file), specs, 2, "\t", ["label", "user"], header=False))))


def test_the_criteo_logs(tmp_path):
    file = tmp_path / "train.txt"
    file.write_text("\n".join("\t".join([str(number % 2), "", str(number), *["3"] * 11, "ffffffff", "", *["1a"] * 24])
                              for number in range(10)) + "\n")
    (found,) = elements(lambda: asc.data.read(str(file), None, 10, format="criteo"))
    assert len(found) == 40
    assert found["label"].tolist() == [number % 2 for number in range(10)]
    assert found["I2"].tolist() == list(range(10))
    assert (found["I1"] == 0).all() and (found["C1"] == 2 ** 32 - 1).all()
    assert (found["C2"] == 0).all() and (found["C26"] == 26).all()
    (hexadecimal,) = elements(lambda: asc.data.read(
        str(file), {"C26": tf.io.FixedLenFeature([], tf.int64), "C1": tf.io.FixedLenFeature([], tf.string)}, 10,
        format="criteo"))
    assert (hexadecimal["C26"] == 0x1a).all() and (hexadecimal["C1"] == b"ffffffff").all()
    (some,) = elements(lambda: asc.data.read(str(file), {"C1": asc.data.hashed("C1", 100, default_value="")}, 10,
                                             format="criteo"))
    with tf.Graph().as_default(), v1.Session() as session:
        assert (some["C1"] == session.run(tf.strings.to_hash_bucket_fast("ffffffff", 100))).all()


def test_shuffled_lines_of_several_files_are_read_once_per_epoch(tmp_path):
    paths = []
    for name, numbers in (("a", range(30)), ("b", range(30, 77))):
        paths.append(tmp_path / (name + ".csv"))
        paths[-1].write_text("user\n" + "".join("{}\n".format(number) for number in numbers))
    found = elements(lambda: asc.data.read([str(one) for one in paths], {"user": SPECS["user"]}, 8, shuffle=True,
                                           epochs=2, readers=2))
    users = np.concatenate([batch["user"] for batch in found])
    assert sorted(users[:77]) == sorted(users[77:]) == list(range(77))
    assert users[:77].tolist() != users[77:].tolist() != list(range(77))


def test_a_bad_line_is_an_error_with_its_place_or_is_skipped(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("user,label\n1,0\n2,x\n3,1\n")
    specs = {"user": SPECS["user"], "label": SPECS["label"]}
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="E337: record 1 of .*a.csv .4 bytes at byte 15. .*Field 1 .* not a valid int32: x"):
        elements(lambda: asc.data.read(str(file), specs, 8))
    (found,) = elements(lambda: asc.data.read(str(file), specs, 8, on_bad_record="skip"))
    assert (found["user"].tolist(), found["label"].tolist()) == ([1, 3], [0, 1])


@pytest.mark.parametrize("given, reason", [
    ({"features": {"none": SPECS["user"]}}, r"'none' of [\w.]+data.read is not a field of .*'label', 'user'"),
    ({"features": {"user": tf.io.VarLenFeature(tf.int64)}}, "a field of a text file has one value"),
    ({"features": {"user": tf.io.FixedLenFeature([2], tf.int64)}}, "a field of a text file has one value"),
    ({"features": {"user": SPECS["user"], "other": asc.data.hashed("user")}},
     "Two features .*'user'.*tf.strings.to_hash_bucket_fast"),
    ({"features": {}}, "Pass a dict of specs"), ({"features": None}, "Pass a dict of specs"),
    ({"columns": ["label", "label"]}, "several fields|not a field"), ({"format": "orc"}, "argument format"),
    ({"format": "criteo", "columns": ["label"]}, "E260: Argument columns .* but the format is criteo"),
])
def test_wrong_arguments_are_refused(path, given, reason):
    with tf.Graph().as_default(), pytest.raises(AscpipeError, match=reason):
        asc.data.read(**{"files": path, "features": {"label": SPECS["label"]}, "batch_size": 8, **given})


def test_files_with_different_headers_are_refused(tmp_path):
    for name, header in (("a.csv", "x,y"), ("b.csv", "y,x")):
        (tmp_path / name).write_text(header + "\n1,2\n")
    with tf.Graph().as_default(), pytest.raises(AscpipeError, match="E277: .*different names of fields"):
        asc.data.read(str(tmp_path / "*.csv"), {"x": SPECS["user"]}, 8)


def test_the_feature_specs_of_the_commands_read_the_file(tmp_path):
    file = tmp_path / "clicks.csv"
    file.write_text("user,price,click\nu1,1.5,0\nu2,,1\n")
    header = formats.text(header=True)
    schema = TextSchema(header)
    with RecordFile(str(file), None, header) as opened:
        schema.check(opened, 2 ** 40, [])
    lines = feature_lines(schema.fields(["user", "price", "click"]), schema.records, header=True)
    program = tmp_path / "features.py"
    program.write_text("\n".join(["import tensorflow.compat.v1 as tf", *lines]))
    made = runpy.run_path(str(program))
    (found,) = elements(lambda: asc.data.read(str(file), made["features"], 2))
    assert {name: values.tolist() for name, values in found.items()} == {
        "user": [b"u1", b"u2"], "price": [1.5, 0], "click": [0, 1]}


@pytest.mark.parametrize("buckets", [None, 1000])
def test_the_ids_that_the_page_computes_equal_hashed_strings(tmp_path, buckets):
    def ids_of(strings):
        if buckets is not None:
            return tf.strings.to_hash_bucket_fast(strings, buckets)
        return tf.bitwise.bitwise_and(tf.bitcast(tf.fingerprint(strings), tf.int64), 2**63 - 1)

    names = ["u1", "\xe9", "", "a" * 100, *map(str, range(40))]
    file = tmp_path / "clicks.csv"
    file.write_bytes("\n".join(["ad_id,price", *(name + ",1" for name in names), ""]).encode())
    hashed = {"ad": asc.data.hashed("ad_id", buckets, default_value="")}
    text = {"ad_id": tf.io.FixedLenFeature([], tf.string, "")}
    (expected,) = elements(lambda: asc.data.read(str(file), hashed, 64))
    (found,) = elements(lambda: asc.data.read(str(file), text, 64).map(
        lambda batch: dict(batch, ad=ids_of(batch["ad_id"]))))
    assert found["ad"].tolist() == expected["ad"].tolist() and found["ad_id"][1] == "\xe9".encode()
    with tf.Graph().as_default(), v1.Session() as session:
        assert session.run(ids_of(tf.constant(names))).tolist() == expected["ad"].tolist()
    assert buckets or (expected["ad"] >= 2 ** 62).any()


def test_an_empty_field_without_a_default_is_an_error(tmp_path):
    file = tmp_path / "clicks.csv"
    file.write_text("ad_id,price\n,1\n")
    with pytest.raises(tf.errors.OpError, match="E337"):
        elements(lambda: asc.data.read(str(file), {"ad": asc.data.hashed("ad_id")}, 1))
