"""What ``ascpipe run`` becomes, and what it refuses."""
import os
import sys

import pytest
from click.testing import CliRunner

from ascpipe.cli import main
from ascpipe.cli.run import environment_of
from ascpipe.errors import NotBuiltYetError
from tests.support import tree


@pytest.fixture
def became(monkeypatch):
    """What the process would have become: (executable, arguments, environment) of each time."""
    found = []
    monkeypatch.setattr(os, "execve", lambda *what: found.append(what))
    for variable in ("OMPI_COMM_WORLD_SIZE", "RANK_SIZE"):
        monkeypatch.delenv(variable, raising=False)
    return found


def run(*arguments):
    return CliRunner(mix_stderr=False).invoke(main.main, ["run", *arguments])


def test_the_program_gets_all_that_stands_after_its_name(became):
    assert run("--ranks", "1", __file__, "--ranks", "5", "-h", "--", "x y").exit_code == 0
    ((executable, arguments, environment),) = became
    assert executable == arguments[0] == sys.executable
    assert arguments[1] == str(tree.ROOT / "ascpipe/cli/program.py")
    assert arguments[2] == str(tree.ROOT / "ascpipe/standins")
    assert arguments[3:] == [__file__, "--ranks", "5", "-h", "--", "x y"]
    assert "ASCPIPE_NAME" not in environment


def test_the_program_is_told_that_it_is_the_one_rank_where_nobody_says_so():
    told = environment_of({"HOME": "/here", "DEVICE_ID": "3", "ASCPIPE_NAME": "mine"}, 1)
    assert (told["HOME"], told["DEVICE_ID"], told["ASCPIPE_NAME"]) == ("/here", "3", "mine")
    assert (told["RANK_ID"], told["RANK_SIZE"], told["OMPI_COMM_WORLD_RANK"], told["OMPI_COMM_WORLD_SIZE"],
            told["OMPI_COMM_WORLD_LOCAL_RANK"], told["OMPI_COMM_WORLD_LOCAL_SIZE"]) == ("0", "1") * 3


@pytest.mark.parametrize("ranks, environment, origin", [
    (2, {}, "--ranks is 2"), (1, {"RANK_SIZE": "8"}, "RANK_SIZE is 8"),
    (1, {"OMPI_COMM_WORLD_SIZE": "4"}, "OMPI_COMM_WORLD_SIZE is 4")])
def test_several_ranks_are_not_built_yet(ranks, environment, origin):
    with pytest.raises(NotBuiltYetError, match=origin):
        environment_of(environment, ranks)


@pytest.mark.parametrize("arguments, code, text", [
    (("--ranks", "2", __file__), 1, "E600"), (("--ranks", "0", __file__), 2, "--ranks"),
    (("--daemon", "nobody", __file__), 3, "E212"), (("--daemon", "a/b", __file__), 2, "E215"),
    (("--rank", "1", __file__), 2, "--rank"), ((), 2, "SCRIPT"), (("/nothing.py",), 2, "/nothing.py"),
    ((os.path.dirname(__file__),), 2, "SCRIPT")])
def test_a_wrong_call_starts_nothing(became, arguments, code, text):
    result = run(*arguments)
    assert (result.exit_code, became) == (code, [])
    assert text in result.stderr
