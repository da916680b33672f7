"""Programs in the README and in the tutorial run as they are printed, and print what is printed there."""
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.support import tree

README = (tree.ROOT / "README.md").read_text()
FROM_TENSORFLOW = (tree.ROOT / "docs/tutorial/from-tensorflow.md").read_text()


def programs(text):
    """The blocks of Python, in their order."""
    return re.findall(r"```python\n(.*?)```", text, re.S)


def run(program, folder):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=str(folder), capture_output=True,
                          text=True, timeout=140)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.timeout_s(150)
def test_the_program_in_the_readme_prints_what_is_printed_below_it(tmp_path):
    (program,) = programs(README)
    done = run(program, tmp_path)
    line, result = re.search(r"```\n(ascpipe: daemon .*)\n(loss .*)\n```", README).groups()
    assert done.stdout == result + "\n"
    (said,) = [said for said in done.stderr.splitlines() if said.startswith("ascpipe: ")]
    assert re.sub(r"private-\w+-\w+|\d+", "", said) == re.sub(r"private-\w+-\w+|\d+", "", line)


@pytest.mark.timeout_s(150)
@pytest.mark.parametrize("place", [0, 1], ids=["before", "after"])
def test_both_programs_of_the_five_changes_print_the_loss_that_is_printed_there(place, tmp_path):
    program = programs(FROM_TENSORFLOW)[place]
    promised = re.search(r"^Both print `(loss 0\.\d{5})`\.$", FROM_TENSORFLOW, re.M).group(1)
    assert run(program, tmp_path).stdout.startswith(promised)


@pytest.mark.timeout_s(150)
def test_clipping_as_the_tutorial_has_it_clips(tmp_path):
    after, clipping = programs(FROM_TENSORFLOW)[1:3]
    train, = re.findall(r"^train = .*\n", after, re.M)
    program = after.replace(train, clipping.replace("5.0", "1e-9")).replace("range(1000)", "range(3)")
    value = float(re.match(r"loss (\d\.\d+)", run(program, tmp_path).stdout).group(1))
    assert np.isclose(value, np.log(2), atol=1e-4)  # that of zeros: nothing has moved
