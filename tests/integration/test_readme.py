"""Programs in the README and in the tutorial run as they are printed, and print what is printed there.

The program of the README is executed.  The others are forked from a process that has imported TensorFlow, and have one
daemon: import and start take longer than most of them.
"""
import functools
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.support import tree
from tests.support.daemons import DaemonProcess

pytestmark = pytest.mark.usefixtures("fork_server")

README = (tree.ROOT / "README.md").read_text()
FROM_TENSORFLOW = (tree.ROOT / "docs/tutorial/from-tensorflow.md").read_text()


def programs(text):
    """The blocks of Python, in their order."""
    return re.findall(r"```python\n(.*?)```", text, re.S)


@pytest.fixture(scope="module")
def printed_by(fork_server, _module_leaves_nothing_behind):
    """A function that returns the standard output of a program in a file of its own."""
    daemon = DaemonProcess("printed", spared=True)
    try:
        yield functools.partial(printed, fork_server, daemon.name)
    finally:
        daemon.end()


def printed(server, daemon, program, folder, function="python", options=()):
    path = folder / "train.py"
    path.write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(tree.ROOT), "TMPDIR": str(folder), "PYTHONWARNINGS": "ignore",
                   "ASCPIPE_NAME": daemon}
    called = server.call(function, [*options, str(path)], str(folder), environment)
    assert called.wait(140.0) == 0, called.err
    return called.out


@pytest.mark.timeout_s(150)
@pytest.mark.smoke
def test_the_program_in_the_readme_prints_what_is_printed_below_it(tmp_path):
    program, writer = programs(README)
    for text in (writer, program):
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], cwd=str(tmp_path), capture_output=True,
                              text=True, timeout=140)
    assert done.returncode == 0, done.stderr
    line, result = re.search(r"```\n(ascpipe: daemon .*)\n(loss .*)\n```", README).groups()
    assert done.stdout == result + "\n"
    (said,) = [said for said in done.stderr.splitlines() if said.startswith("ascpipe: ")]
    assert re.sub(r"private-\w+-\w+|\d+", "", said) == re.sub(r"private-\w+-\w+|\d+", "", line)


@pytest.mark.timeout_s(150)
@pytest.mark.parametrize("place", [0, 1], ids=["before", "after"])
def test_both_programs_of_the_five_changes_print_the_loss_that_is_printed_there(place, printed_by, tmp_path):
    program = programs(FROM_TENSORFLOW)[place]
    promised = re.search(r"^Both print `(loss 0\.\d{5})`\.$", FROM_TENSORFLOW, re.M).group(1)
    assert printed_by(program, tmp_path).startswith(promised)


@pytest.mark.timeout_s(150)
def test_clipping_as_the_tutorial_has_it_clips(printed_by, tmp_path):
    after, clipping = programs(FROM_TENSORFLOW)[1:3]
    train, = re.findall(r"^train = .*\n", after, re.M)
    program = after.replace(train, clipping.replace("5.0", "1e-9")).replace("range(1000)", "range(3)")
    value = float(re.match(r"loss (\d\.\d+)", printed_by(program, tmp_path)).group(1))
    assert np.isclose(value, np.log(2), atol=1e-4)  # that of zeros: nothing has moved


def other_kinds():
    """(heading, its blocks of Python, the lines that it says are printed) of "Programs of other kinds"."""
    part = re.search(r"^## Programs of other kinds\n(.*?)^## What stays", FROM_TENSORFLOW, re.M | re.S).group(1)
    for section in re.split(r"^### ", part, flags=re.M)[1:]:
        heading, text = section.split("\n", 1)
        yield heading, programs(text), re.findall(r"^The program prints `(.*?)`", text, re.M)


BY_HEADING = {heading: blocks for heading, blocks, _ in other_kinds()}
PRINTED = [(heading, blocks[place], line) for heading, blocks, lines in other_kinds()
           for place, line in enumerate(lines)]
SWITCH = "asc.use_for_feature_columns()"
LONGEST_PROGRAM = 36


def test_every_program_of_another_kind_is_short_and_has_a_line_that_it_prints():
    assert list(BY_HEADING) == ["Placeholders", "Feedable iterators", "Text as ids", "Feature columns", "Combiners",
                                "Estimators", "Keras"]
    for heading, blocks, lines in other_kinds():
        assert len([block for block in blocks if not block.endswith(SWITCH + "\n")]) == len(lines) > 0, heading
        assert max(block.count("\n") for block in blocks) <= LONGEST_PROGRAM, heading


@pytest.mark.timeout_s(150)
@pytest.mark.parametrize("program, line", [row[1:] for row in PRINTED],
                         ids=["{}-{}".format(number, row[0]) for number, row in enumerate(PRINTED)])
def test_a_program_of_another_kind_prints_what_the_guide_says(program, line, printed_by, tmp_path):
    assert printed_by(program, tmp_path) == line + "\n"


@pytest.mark.timeout_s(150)
@pytest.mark.parametrize("command, switched", [
    (("ascpipe_run", ["--columns"]), False), (("python", []), True)], ids=["command", "switch"])
def test_feature_columns_print_the_same_with_tables(command, switched, printed_by, tmp_path):
    program, switch = BY_HEADING["Feature columns"]
    (line,) = [line for heading, _, line in PRINTED if heading == "Feature columns"]
    assert printed_by(switch * switched + program, tmp_path, *command) == line + "\n"


@pytest.mark.timeout_s(150)
def test_a_combiner_of_tensorflow_prints_the_same(printed_by, tmp_path):
    (program,) = BY_HEADING["Combiners"]
    (line,) = [line for heading, _, line in PRINTED if heading == "Combiners"]
    for before, after in [
            (r"^(import ascpipe.tf as asc|asc\.\w+\(\))\n", ""),
            (r"^table = .*\n", "table = tf.compat.v1.get_variable('tags', [50000, 8], "
                               "initializer=tf.compat.v1.zeros_initializer())\n"),
            (r"asc\.lookup_sparse\((.*), weights=", r"tf.nn.safe_embedding_lookup_sparse(\1, "),
            (r"asc\.optimizers\.Adagrad", "tf.compat.v1.train.AdagradOptimizer")]:
        program, times = re.subn(before, after, program, flags=re.M)
        assert times
    assert "asc" not in program.replace("ascpipe", "asc")
    assert printed_by(program, tmp_path) == line + "\n"
