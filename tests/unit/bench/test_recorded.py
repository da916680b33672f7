"""The picture of the first page shows the figures that are recorded, and so does its table."""
import re
import subprocess
import sys

import pytest

from bench import recorded
from tests.support import tree

TEXT = recorded.RESULTS.read_text()


def test_the_picture_has_every_program_with_its_figures():
    picture = recorded.PICTURE.read_text()
    assert len(recorded.programs(TEXT)) == 10
    for program in recorded.programs(TEXT):
        for words in (program.name, "{:.2f} x ({})".format(program.ratio, program.step)):
            assert ">{}<".format(words.strip()) in picture or "> {}<".format(words) in picture, words


@pytest.mark.skipif(sys.version_info >= (3, 8), reason="later releases of matplotlib draw other bytes")
def test_the_picture_is_drawn_anew_with_the_same_bytes(tmp_path):
    """In a process of its own: matplotlib keeps its fonts open."""
    program = ("from pathlib import Path\nfrom bench import recorded\nrecorded.PICTURE = Path({!r}) / 'x.svg'\n"
               "recorded.main()").format(str(tmp_path))
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=str(tree.ROOT), check=True, timeout=50)
    assert (tmp_path / "x.svg").read_bytes() == recorded.PICTURE.read_bytes()


def test_the_table_of_the_first_page_has_recorded_figures():
    known = {program.name: program for program in recorded.programs(TEXT)}
    rows = re.findall(r"^\| (.+?) \| ([\d.]+ \w+) \| ([\d.]+) times as long \|$", (tree.ROOT / "README.md").read_text(),
                      re.M)
    assert len(rows) == 5
    for name, step, ratio in rows:
        assert (known[name].step, "{:.2f}".format(known[name].ratio)) == (step, ratio)
