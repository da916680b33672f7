"""Sides of ``bench/parse_program.py``, and of ``bench/usual_program.py`` with a file as source. Both sides of a variant
read the same file.
"""
import atexit
import contextlib
import functools
import json
import os
import sys
import tempfile
from typing import Dict, Iterator, Union

from bench import parse_program, usual_input, usual_model, usual_program, usual_sides, workloads
from bench.usual_model import OURS, PLAIN
from bench.usual_sides import Side

NAMES = {OURS: "ascpipe", PLAIN: "TensorFlow"}
_SMALL_ROWS = 64
_SMALL_BATCHES = 4
_SMALL_KEYS = 1000

Setting = Union[parse_program.Setting, usual_model.Setting]


def sized(setting: Setting) -> Setting:
    """Return the setting, with a small file in a run with small sizes."""
    if not workloads.is_small():
        return setting
    return setting._replace(rows=_SMALL_ROWS, batches=_SMALL_BATCHES, keys=_SMALL_KEYS)


@contextlib.contextmanager
def running(setting: Setting) -> Iterator[Dict[str, Side]]:
    """Yield a dict from name to side. Each side has processed its first step."""
    setting = _with_file(setting)
    program = parse_program if isinstance(setting, parse_program.Setting) else usual_program
    with contextlib.ExitStack() as stack:
        sides = {NAMES[side]: stack.enter_context(Side(
            [sys.executable, "-m", program.__name__, json.dumps(setting._replace(side=side)._asdict())],
            lead_steps=setting.prefetch + usual_sides.IN_PROGRESS)) for side in (OURS, PLAIN)}
        for side in sides.values():
            side.trained()
        yield sides


@functools.lru_cache(maxsize=None)
def _folder() -> str:
    """Return the folder of the files of this run. It is removed when the process exits."""
    folder = tempfile.TemporaryDirectory(prefix="bench-data-")
    atexit.register(folder.cleanup)
    return folder.name


def _with_file(setting: Setting) -> Setting:
    """Return the setting with its file, which is written unless another variant has the same file."""
    if isinstance(setting, parse_program.Setting):
        content = ("examples", setting.columns, setting.most_values, setting.floats)
        write = functools.partial(parse_program.write_file, setting)
    else:
        has_columns = setting.source in (usual_model.LINES, usual_model.PARQUET)
        content = (setting.source if has_columns else "examples", setting.tables, 1, usual_input.FLOATS)
        write = functools.partial(usual_input.write_file, setting)
    parts = (*content, setting.rows * setting.batches, setting.keys, setting.exponent)
    path = os.path.join(_folder(), "-".join(map(str, parts)))
    if not os.path.exists(path):
        write(path)
    return setting._replace(data=path)
