"""The examples of one file run as they are printed, and print what they promise; so do the cells of the notebook."""
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.support import forked_calls, tree

pytestmark = pytest.mark.usefixtures("forked_programs")

LONGEST = 80
#: Of each example, what the last lines are.
PRINTED = {
    "estimator.py": r"auc (1\.000|0\.99\d)\nuser \d+: click [01]\.\d\d\n",
    "ragged_ids.py": r"step 200: loss 0\.\d+\nstep 400: loss 0\.[01]\d+\nstep 600: loss 0\.[01]\d+\nrows 300\n",
    "admission_and_eviction.py":
        r"minute 30: 600 keys seen, 119 admitted, 119 after the eviction\n"
        r"minute 60: 1100 keys seen, 140 admitted, 140 after the eviction\n"
        r"minute 90: 1600 keys seen, 160 admitted, 140 after the eviction\n"
        r"minute 120: 2100 keys seen, 160 admitted, 140 after the eviction\n",
    "deltas_and_serving.py":
        r"model-100: users 3, 7, 9 are worth .*\nmodel-200: .*\nmodel-300: users 3, 7, 9 are worth \[3.0, 7.0, 9.0\]\n",
    "migrate_columns.ipynb":
        r"(step 200: auc 0\.\d+) with variables\n\1 with tables\nstep 400: auc 0\.\d+ with tables\n",
    "export_columns.py": r"user 1: click (1\.0|0\.[6-9])\nuser 5: click 0\.[0-4]\n",
    "neighbours.ipynb": r"loss 0\.\d+\n400 films, 16 floats each\n(film (\d) of genre \2 -> genres \d \d \d \d \d\n){3}"
                        r"neighbours of the same genre: (9\d|100)%\n",
    "resume.py": r"(step \d+00: loss 0\.\d+\n){19}step 2000: loss 0\.01\d+\n",
    "serving_updates.py":
        r"(step \d00: users 3, 7, 9 are worth [\d., -]+, served after \d+\.\d\d s\n){5}"
        r"step 600: users 3, 7, 9 are worth 3\.0, 7\.0, 9\.0, served after \d+\.\d\d s\n",
    "notebook.ipynb": r"loss 0\.\d+, rows \d+\nloss 0\.\d+\nloss 0\.\d+, rows \d+\n",
}
#: What names a file of ours as the cause of a warning.
OURS = re.compile(r"(ascpipe|mx_rec|workers|tfops)/[\w/]+\.py:\d+")


def examples():
    """The examples of one file, by name."""
    return {path.name: path for path in (tree.ROOT / "examples").iterdir()
            if path.suffix in (".py", ".ipynb") and path.name != "__init__.py"}


def program_of(path):
    """The program of an example; of a notebook the cells of code, in their order."""
    if path.suffix == ".py":
        return path.read_text()
    cells = json.loads(path.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_every_example_is_short_and_named_in_the_list():
    listed = (tree.ROOT / "examples/README.md").read_text()
    assert set(examples()) == set(PRINTED)
    for name, path in examples().items():
        assert len(program_of(path).splitlines()) <= LONGEST, name
        assert "| `{}` |".format(name) in listed


@pytest.mark.timeout_s(150)
@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_prints_what_it_promises_and_nothing_of_ours_is_deprecated(name, tmp_path):
    path = tmp_path / "example.py"
    path.write_text(program_of(examples()[name]))
    variables = {**os.environ, "PYTHONPATH": str(tree.ROOT)}
    code, out, err = forked_calls.python(["-W", "default", path], tmp_path, variables, 140.0)
    assert code == 0, err
    assert re.fullmatch(PRINTED[name], out), out
    assert [line for line in err.splitlines() if OURS.search(line)] == []
    assert err.count("ascpipe: daemon") >= 1


@pytest.mark.timeout_s(150)
def test_an_example_that_is_killed_continues_with_the_next_batch(tmp_path):
    variables = {**os.environ, "PYTHONPATH": str(tree.ROOT)}
    command = [str(tree.ROOT / "examples/resume.py"), str(tmp_path)]
    with subprocess.Popen([sys.executable, *command], cwd=str(tmp_path), env=variables, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, universal_newlines=True) as killed:
        before = [next(killed.stdout) for _ in range(7)]
        killed.kill()
    code, out, err = forked_calls.python(command, tmp_path, variables, 100.0)
    assert code == 0, err
    after = out.splitlines(keepends=True)
    assert after[0].startswith(("step 700:", "step 800:", "step 900:")), out  # it may have trained until it was killed
    shutil.rmtree(str(tmp_path / "model"))
    code, out, err = forked_calls.python(command, tmp_path, variables, 100.0)
    assert code == 0, err
    undisturbed = out.splitlines(keepends=True)
    assert before == undisturbed[:7]
    assert after == undisturbed[-len(after):]


def test_a_warning_that_names_a_file_of_ours_is_seen():
    assert OURS.search("WARNING:tensorflow:From /x/ascpipe/tf/insert.py:123: The name tf.placeholder is deprecated.")
    assert not OURS.search("/x/site-packages/tensorflow/python/framework/dtypes.py:516: FutureWarning")


@pytest.mark.parametrize("name", sorted(name for name in PRINTED if name.endswith(".ipynb")))
def test_cells_of_a_notebook_have_no_output(name):
    notebook = json.loads(examples()[name].read_text())
    assert notebook["nbformat"] == 4
    assert all(not cell.get("outputs") for cell in notebook["cells"])
