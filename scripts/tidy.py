"""Run clang-tidy on the C++ sources that do not include TensorFlow: ``python scripts/tidy.py``.

The checks are listed in .clang-tidy. Sources are checked in their compilation units, because most of the time is spent
in the headers of the standard library.
"""
import concurrent.futures
import os
import subprocess
import sys
from pathlib import Path

from ascpipe.tfops import build, units

ROOT = Path(__file__).resolve().parent.parent
TIDY = ROOT / ".venv/bin/clang-tidy"
UNITS = ROOT / "build/tidy"
FLAGS = ["-std=c++14", "-DNDEBUG", "-pthread", "-I" + str(build.SOURCES), "-I" + str(build.GENERATED)]


def examine(unit: units.Unit) -> str:
    """Return the findings in a unit, or an empty text."""
    file = UNITS / (unit.name + ".cc")
    file.write_text(unit.text or '#include "{}"\n'.format(unit.sources[0]))
    result = subprocess.run(
        [str(TIDY), "--quiet", "--config-file=" + str(ROOT / ".clang-tidy"), "--header-filter=.*tfops/src/.*",
         str(file), "--", *FLAGS], check=False, capture_output=True, text=True)
    return result.stdout + (result.stderr if result.returncode else "")


def main() -> int:
    """Run clang-tidy. Return 1 if there are findings, and 0 otherwise."""
    UNITS.mkdir(parents=True, exist_ok=True)
    every = units.divide(path.relative_to(build.SOURCES).as_posix() for path in build.SOURCES.glob("*/*.cc"))
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        findings = "".join(pool.map(examine, [unit for unit in every if not unit.needs_tensorflow]))
    sys.stdout.write(findings)
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
