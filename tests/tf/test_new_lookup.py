"""A new kind of lookup needs a field, a rule and a kernel: a patch adds one, the weighted average of two tables.

``new_lookup/weighted_average.patch`` changes a copy of the sources, and ``new_lookup/program.py`` trains with it.
"""
import collections
import json
import os
import shutil
import subprocess

import pytest

from tests.support import tree
from tests.tf.new_lookup import changes, program

#: What the patch changes: files, and in how many places.
DOOR = {"ascpipe/tf/api/tables.py": 4, "ascpipe/tf/program/sparse_lookup.py": 2}
REQUEST = {"ascpipe/tf/graph/lookup_request.py": 3}
OP = {"ascpipe/tf/graph/average.py": 1, "tfops/src/ops/average_op.cc": 1}  # with its gradient and its documentation
FIELD = {"tfops/src/step/step.h": 1}
READER = {"tfops/src/graph/join_reader.cc": 2}
RULE = {"tfops/src/step/read_rules.cc": 1}
ATTRIBUTE = {  # the field on its way from the layout to the kernel
    "tfops/src/graph/step_writer.cc": 1, "tfops/src/graph/new_ops.h": 1, "tfops/src/graph/new_ops.cc": 1,
    "tfops/src/ops/read_op.cc": 2, "tfops/src/bridge/read_layout.h": 1, "tfops/src/bridge/read_layout.cc": 2}
KERNEL = {"tfops/src/core/average.h": 1, "tfops/src/core/average.cc": 1, "tfops/src/bridge/read_outputs.h": 1,
          "tfops/src/bridge/read_outputs.cc": 4}
MOST_LINES = 175


def lines(files):
    """Lines that are new or changed in some files."""
    return sum(hunk.added for hunk in changes.hunks() if hunk.file in files)


def test_the_patch_of_a_new_lookup_fits_the_sources():
    assert set(changes.applied(tree.ROOT)) == {hunk.file for hunk in changes.hunks()}


def test_a_new_lookup_is_a_field_a_rule_and_a_kernel():
    places = {}
    for part in (DOOR, REQUEST, OP, FIELD, READER, RULE, ATTRIBUTE, KERNEL):
        places.update(part)
    assert collections.Counter(hunk.file for hunk in changes.hunks()) == places
    assert (lines(FIELD), lines(READER), lines(RULE), lines(ATTRIBUTE)) == (1, 3, 2, 10)
    assert lines(places) <= MOST_LINES


@pytest.mark.long  # it compiles a third of the ops
@pytest.mark.timeout_s(900)
def test_a_program_trains_by_the_weighted_average_of_two_tables(tmp_path):
    root = changed_copy(tmp_path.resolve() / "tree")
    run(root, "-m", "ascpipe.tfops.build", "--quiet", ASCPIPE_CACHE_DIR=str(tmp_path))
    told = json.loads(run(root, program.__file__))
    assert told["steps"] == program.over_variables()
    assert len({step["loss"] for step in told["steps"]}) == program.STEPS + 1
    assert told["usual"]["AscRead"] == 1 and not {"AscLookup", "AscAverage"} & set(told["usual"])
    assert told["apart"]["AscLookup"] == 2 and told["apart"]["AscAverage"] == 1 and "AscRead" not in told["apart"]


def changed_copy(folder):
    """A copy of the sources that the patch has changed, with what was compiled of the others, and the environment."""
    for name in tree.PRODUCT:
        shutil.copytree(str(tree.ROOT / name), str(folder / name), ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tfops", "workers"):
        (folder / "ascpipe" / name).symlink_to(folder / name)  # as an installed package has them
    (folder / ".venv").symlink_to(tree.ROOT / ".venv")
    for file, text in changes.applied(tree.ROOT).items():
        (folder / file).write_text(text)
    return folder


def run(root, *arguments, **variables):
    """Run Python on the sources of a tree, and return what it printed."""
    done = subprocess.run([str(root / ".venv/bin/python"), "-W", "ignore", *arguments], cwd=str(root), text=True,
                          env=dict(os.environ, PYTHONPATH=str(root), **variables), capture_output=True, timeout=800)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout
