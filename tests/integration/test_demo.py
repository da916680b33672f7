"""The demo as a user runs it: its last line, its exit codes, what it learns."""
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.dlrm import criteo, generator, train
from tests.support import forked_calls

pytestmark = pytest.mark.usefixtures("forked_programs")
ROOT = Path(__file__).resolve().parents[2]
LAST_LINE = re.compile(
    r"demo: ok steps=(?P<steps>\d+) auc=(?P<auc>[\d.]+) loss=(?P<loss>[\d.]+) "
    r"examples_per_s=(?P<examples>\d+) ids_per_s=(?P<ids>\d+)")

#: what a program says when its pipeline starts
START_LINE = r"ascpipe: daemon (\S+) \(pid \d+\) feeds 26 tables; to watch it: ascpipe top --name \1\n"


def start_demo(*arguments):
    return subprocess.Popen([sys.executable, "-m", "examples.dlrm.train"] + [str(argument) for argument in arguments],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=str(ROOT), text=True,
                            env=dict(os.environ, ASCPIPE_RING_BYTES=str(16 << 20)))


def run_demo(*arguments, timeout_s=50.0):
    variables = dict(os.environ, ASCPIPE_RING_BYTES=str(16 << 20), PYTHONPATH=str(ROOT))
    command = ["-m", "examples.dlrm.train", *arguments]
    return subprocess.CompletedProcess(command, *forked_calls.python(command, ROOT, variables, timeout_s))


def last_line(done):
    assert done.returncode == 0, done.stderr
    return LAST_LINE.fullmatch(done.stdout.splitlines()[-1]).groupdict()


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("rows") / "rows.tsv")
    generator.write_file(path, rows=20000, seed=1)
    return path


@pytest.mark.parametrize("content, reason", [
    (None, "no such file"),
    ("1\t2\t3\n" * 20, "line 1: 3 columns, want 40"),
    ("", "0 rows; at least 10"),
    (("0" + "\t" * 39 + "\n") * 20, "18 rows to train, fewer than one batch of 256"),
])
def test_a_bad_file_ends_the_demo_with_code_1_and_the_reason(tmp_path, capsys, content, reason):
    path = tmp_path / "rows.tsv"
    if content is not None:
        path.write_text(content)
    assert train.main(["--data", str(path)]) == 1
    assert capsys.readouterr().err.startswith("demo: error: {}: {}".format(path, reason))


@pytest.mark.parametrize("arguments, reason", [
    (["--batch-size", "0"], "0 is outside"), (["--learning-rate", "11"], "must lie in (0, 10]"),
    (["--optimizer", "magic"], "invalid choice"), (["--static", "--dynamic"], "not allowed with"),
])
def test_a_wrong_argument_is_a_usage_error(capsys, arguments, reason):
    with pytest.raises(SystemExit) as stopped:
        train.main(arguments)
    assert stopped.value.code == 2
    assert reason in capsys.readouterr().err


def test_a_bad_value_found_while_training_is_reported_with_its_line(tmp_path, rows):
    path = tmp_path / "rows.tsv"
    lines = Path(rows).read_bytes().splitlines(keepends=True)[:600]
    lines[412] = lines[412].replace(lines[412].split(b"\t")[14], b"not a hex", 1)
    path.write_bytes(b"".join(lines))
    done = run_demo("--plain", "--data", path, "--batch-size", 64, "--steps", 20)
    assert done.returncode == 1
    assert done.stderr == (
        "demo: error: {}: line 413: column 15 (C1) is 'not a hex', want a hexadecimal number or nothing\n".format(path))


@pytest.mark.timeout_s(120)
def test_the_demo_without_arguments_prints_the_figures_of_the_readme():
    readme = (ROOT / "README.md").read_text()
    printed = re.search(r"`demo: ok steps=(\d+) auc=([\d.]+) loss=([\d.]+) examples_per_s=E ids_per_s=I`", readme)
    tolerance, = re.findall(r"within ([\d.]+) of these figures", readme)
    done = last_line(run_demo(timeout_s=110.0))
    assert done["steps"] == printed.group(1)
    assert float(done["auc"]) == pytest.approx(float(printed.group(2)), abs=float(tolerance))
    assert float(done["loss"]) == pytest.approx(float(printed.group(3)), abs=float(tolerance))
    assert int(done["ids"]) == pytest.approx(int(done["examples"]) * criteo.FIELD_COUNT, rel=.01)


def test_a_table_that_is_too_small_ends_the_demo_with_what_to_raise_and_leaves_nothing(rows):
    done = run_demo("--data", rows, "--steps", 50, "--device-rows", 300)
    assert done.returncode == 1
    assert re.fullmatch(
        START_LINE + r"demo: error: E320: table 'C\d+' needs \d+ device rows .* but has 300\. Raise "
        r"device_vocabulary_size of the table to \d+ or more\. Nothing was lost: .*\n", done.stderr)


def test_control_c_ends_the_demo_with_code_130_and_leaves_nothing(rows):
    with start_demo("--data", rows, "--steps", 1000000, "--progress-every", 5) as demo:
        try:
            assert any(line.startswith("step 5/") for line in demo.stdout)
            demo.send_signal(signal.SIGINT)
            _, errors = demo.communicate(timeout=30)
        finally:
            demo.kill()
    assert demo.returncode == 130
    assert re.fullmatch(START_LINE + "demo: interrupted\n", errors), errors
