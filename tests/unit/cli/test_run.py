"""What ``ascpipe run`` becomes, and what it refuses."""
import json
import os
import sys

import pytest
from click.testing import CliRunner

from ascpipe import ranks
from ascpipe.cli import main
from ascpipe.cli.run import environment_of
from ascpipe.errors import RanksError
from tests.support import tree


@pytest.fixture
def became(monkeypatch):
    """What the process would have become: (executable, arguments, environment) of each time."""
    found = []
    monkeypatch.setattr(os, "execve", lambda *what: found.append(what))
    for variable in [name for launcher in ranks.LAUNCHERS for name in launcher] + ["RANK_SIZE"]:
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
    assert arguments[3:] == ["", __file__, "--ranks", "5", "-h", "--", "x y"]
    assert "ASCPIPE_NAME" not in environment


def test_what_columns_are_given_is_handed_on_beside_the_program(became):
    assert run("--columns", __file__, "--columns").exit_code == 0
    sizes = ["--min-buckets", "7", "--device-vocabulary-size", "5", "--host-vocabulary-size", "9", "--take-over",
             "--export-ops", "stock"]
    assert run("--columns", *sizes, __file__).exit_code == 0
    (_, first, _), (_, second, _) = became
    assert (json.loads(first[3]), first[4:]) == ({}, [__file__, "--columns"])
    assert (json.loads(second[3]), second[4:]) == (
        {"min_buckets": 7, "device_vocabulary_size": 5, "host_vocabulary_size": 9, "take_over": True,
         "export_ops": "stock"}, [__file__])


def test_paths_of_pretrained_rows_are_handed_on_as_absolute_paths(became, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.tsv").touch()
    assert run("--columns", "--pretrained", "dnn/x/weights=a=b.tsv", "--pretrained", "y=.", __file__).exit_code == 0
    ((_, arguments, _),) = became
    assert json.loads(arguments[3]) == {"pretrained": {"dnn/x/weights": str(tmp_path / "a=b.tsv"), "y": str(tmp_path)}}


def test_the_program_is_told_that_it_is_the_one_rank_where_nobody_says_so():
    told = environment_of({"HOME": "/here", "DEVICE_ID": "3", "ASCPIPE_NAME": "mine"})
    assert (told["HOME"], told["DEVICE_ID"], told["ASCPIPE_NAME"]) == ("/here", "3", "mine")
    assert (told["RANK_ID"], told["RANK_SIZE"], told["OMPI_COMM_WORLD_RANK"], told["OMPI_COMM_WORLD_SIZE"],
            told["OMPI_COMM_WORLD_LOCAL_RANK"], told["OMPI_COMM_WORLD_LOCAL_SIZE"]) == ("0", "1") * 3


@pytest.mark.parametrize("size", ["8\u00b2", "\u0668", "eight", "-8", "9" * 5000, "1.0"], ids=range(6))
def test_a_number_of_ranks_that_is_none_is_an_error_that_names_the_variable(size):
    with pytest.raises(RanksError, match="RANK_SIZE") as caught:
        environment_of({"RANK_SIZE": size})
    assert len(str(caught.value)) < 500
    assert environment_of({"RANK_SIZE": ""})["OMPI_COMM_WORLD_SIZE"] == "1"


def test_a_rank_of_another_launcher_is_told_that_launcher_s_numbers():
    told = environment_of({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2", "RANK_SIZE": "1", "JOB_ID": "7"})
    assert (told["RANK_ID"], told["RANK_SIZE"], told["OMPI_COMM_WORLD_SIZE"], told["JOB_ID"]) == ("1", "2", "2", "7")


def test_one_process_of_a_run_script_s_several_is_refused():
    with pytest.raises(RanksError, match="RANK_SIZE is 8.*`ascpipe run --ranks 8`"):
        environment_of({"RANK_SIZE": "8"})
    assert environment_of({"RANK_SIZE": "8", "PMI_RANK": "0", "PMI_SIZE": "4"})["RANK_SIZE"] == "4"


@pytest.mark.parametrize("arguments, code, text", [
    (("--ranks", "0", __file__), 2, "--ranks"), (("--hosts", "a:1", __file__), 2, "--ranks 2 or more"),
    (("--restarts", "1", __file__), 2, "--ranks 2 or more"), (("--mpi", __file__), 2, "--ranks 2 or more"),
    (("--ranks", "2", "--daemon", "mine", __file__), 2, "a private daemon"),
    (("--daemon", "nobody", __file__), 3, "E212"), (("--daemon", "a/b", __file__), 2, "E215"),
    (("--min-buckets", "5", __file__), 2, "--min-buckets is for --columns"),
    (("--take-over", __file__), 2, "--take-over is for --columns"),
    (("--columns", "--min-buckets", "0", __file__), 2, "--min-buckets"),
    (("--pretrained", "a=/", __file__), 2, "--pretrained is for --columns"),
    (("--columns", "--pretrained", "=/", __file__), 2, "--pretrained =/: expected VARIABLE=PATH"),
    (("--columns", "--pretrained", "a=/", "--pretrained", "a=/", __file__), 2, "the variable has files already"),
    (("--columns", "--pretrained", "a=/nothing", __file__), 2, "there is no file /nothing"),
    (("--rank", "1", __file__), 2, "--rank"), ((), 2, "SCRIPT"), (("/nothing.py",), 2, "/nothing.py"),
    ((os.path.dirname(__file__),), 2, "SCRIPT")])
def test_a_wrong_call_starts_nothing(became, arguments, code, text):
    result = run(*arguments)
    assert (result.exit_code, became) == (code, [])
    assert text in result.stderr
