"""Duration of `ascpipe status` as a shell command."""
import contextlib
import os
import subprocess
import sys
import tempfile
from typing import Callable, Dict, Iterator

from bench.harness import Case, Contenders

NAME = "measured"


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    arguments = {"text": (), "json": ("--json",)}[variant]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        environment = dict(os.environ, XDG_RUNTIME_DIR=folder, ASCPIPE_NAME=NAME)
        _run(environment, "-m", "ascpipe", "start", "--name", NAME)
        try:
            yield Contenders(1, {
                "ascpipe status": _call(environment, "-m", "ascpipe", "status", "--name", NAME, *arguments),
                "python -c 'import click'": _call(environment, "-c", "import click"),
                "python -c pass": _call(environment, "-c", "pass"),
            })
        finally:
            _run(environment, "-m", "ascpipe", "stop", "--name", NAME)


def _call(environment: Dict[str, str], *arguments: str) -> Callable[[], object]:
    return lambda: _run(environment, *arguments)


def _run(environment: Dict[str, str], *arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError("{} ended with {}: {}".format(" ".join(arguments), done.returncode, done.stderr))


CASE = Case("status", "call", "one_command_one_daemon", ("text", "json"), prepare,
            "`ascpipe status` of an idle daemon, start of Python included")
