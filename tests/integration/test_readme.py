"""The program in the README runs as it is printed."""
import re
import subprocess
import sys

from tests.support import tree


def test_the_program_in_the_readme_learns(tmp_path):
    program = re.search(r"```python\n(.*?)```", (tree.ROOT / "README.md").read_text(), re.S).group(1)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=str(tmp_path), capture_output=True,
                          text=True, timeout=55)
    assert done.returncode == 0, done.stderr
    loss, rows = re.match(r"loss ([\d.]+), rows (\d+)", done.stdout.splitlines()[-1]).groups()
    assert float(loss) < 0.6 and int(rows) == 1000
