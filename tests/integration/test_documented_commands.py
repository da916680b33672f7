"""Commands of the README and of docs/how-to/operations.md, as they are printed there, one after the other."""
import os
import shlex
import subprocess
import sys

import pytest

from tests.house.test_commands_in_docs import shown

#: In this order; the words are in what it prints.
COMMANDS = [
    ("ascpipe doctor", "python"), ("ascpipe start --name mine --workers 2", ""), ("ascpipe list", "mine"),
    ("ascpipe status --name mine", "mine"), ("ascpipe stats -i 1 -n 2", "steps/s"), ("ascpipe logs", "daemon"),
    ("ascpipe logs --failed", ""), ("ascpipe stop --name mine", ""), ("ascpipe start --name mine", ""),
    ("ascpipe stop --name mine", "")]


def run(command, folder):
    program = [sys.executable, "-m", *shlex.split(command)]
    return subprocess.run(program, cwd=str(folder), capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, PYTHONPATH=os.getcwd()))


@pytest.mark.timeout_s(240)
def test_the_documented_commands_do_what_the_documents_say(tmp_path):
    documented = shown()
    try:
        for command, word in COMMANDS:
            assert command in documented
            done = run(command, tmp_path)
            assert done.returncode == 0, "{}: {}{}".format(command, done.stdout, done.stderr)
            assert word in (done.stdout + done.stderr).lower(), command
    finally:
        run("ascpipe stop --name mine", tmp_path)
