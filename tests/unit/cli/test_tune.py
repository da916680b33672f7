"""`ascpipe tune --try` runs a program with a suggested setting and says what has changed, or why it cannot."""
import json
import os
import sys

import pytest
from click.testing import CliRunner

from ascpipe.cli.main import main
from ascpipe.control import run_record
from ascpipe.layout.words import WAIT_KEYS, WAIT_SENTENCES
from tests.unit.cli.test_rates import look

TABLE = dict.fromkeys(run_record.TABLE_FIELDS, 0)
HEAD = {"format": 1, "daemon": "private", "since": "noon", "program": "train.py", "ascpipe": "1",
        "machine": {"cores": 8}, "settings": {"workers": 1, "table_workers": 1}}
#: a program whose run is the old one, in half of the time, with the setting of the environment
PROGRAM = """
import json, os, sys
old, new = sys.argv[1:]
head, *lines = open(old).read().splitlines()
head = json.loads(head)
head["settings"]["workers"] = int({})
samples = [json.loads(line) for line in lines]
faster = [{{**one, "up": one["up"] / 2}} for one in samples]
with open(new, "w") as file:
    file.write("\\n".join(json.dumps(one) for one in [head, *faster]) + "\\n")
"""


def sample(up):
    """An answer to status after ``up`` seconds, while the step waits for the key worker with a full ring."""
    told = look(float(up), trained=10 * up, ids=100 * up)
    for wait in told["waits"]:
        if wait["who"] == "trainer":
            wait.update(asleep=True, waits_for=WAIT_SENTENCES[WAIT_KEYS])
    for ring in told["rings"]:
        ring["depth"] = 30
    return {**told, "tables": [{**TABLE, **table} for table in told["tables"]], "failure": None}


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """The path of the record of a run, and a function that gives the command of the program."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    os.makedirs(run_record.base_dir())
    path = os.path.join(run_record.base_dir(), "private-7.jsonl")
    with open(path, "w") as file:
        file.write("\n".join([json.dumps({**HEAD, "run": 7}), *(run_record.packed(sample(up), float(up))
                                                               for up in range(20))]) + "\n")

    def trial(workers="os.environ['ASCPIPE_WORKERS']"):
        program = tmp_path / "train.py"
        program.write_text(PROGRAM.format(workers))
        new = os.path.join(run_record.base_dir(), "private-8.jsonl")
        return "{} {} {} {}".format(sys.executable, program, path, new)

    return trial


def tune(*arguments):
    return CliRunner().invoke(main, ["tune", *arguments], prog_name="ascpipe")


def test_a_suggested_setting_is_tried_and_the_change_is_shown(recorded):
    assert "Set workers to 2" in tune("--last").output
    done = tune("--last", "--try", recorded())
    assert done.exit_code == 0, done.output
    assert done.output.startswith("Set workers to 2: +100 % steps per second. Expected gain: at most ")
    rows = [line.split() for line in done.output.splitlines()]
    assert ["steps", "per", "second", "10.00", "20.00"] in rows and ["setting", "workers", "1", "2"] in rows


def test_the_result_is_json_too(recorded):
    told = json.loads(tune("--last", "--json", "--try", recorded()).output)
    assert (told["before"], told["after"], told["setting"]) == ("private-7", "private-8", {"workers": 2})
    assert told["gain"] == pytest.approx(1.0) and told["expected_gain"] > 0
    assert {"figure": "setting workers", "before": "1", "after": "2"} in told["changes"]


@pytest.mark.parametrize("workers, command, code, words", [
    ("1", None, 1, "a daemon that was started before the program does not read ASCPIPE_WORKERS"),
    ("0", "true", 1, "has recorded no run"), ("0", "false", 1, "'false' exited with 1"),
    ("0", "/nothing/there", 2, "cannot be run"), ("0", "'", 2, "cannot be run")])
def test_a_trial_without_a_result_says_why(recorded, workers, command, code, words):
    done = tune("--last", "--try", command or recorded(workers))
    assert done.exit_code == code and words.lower() in done.output.lower(), done.output


def test_a_run_without_a_suggested_setting_has_nothing_to_try(recorded, monkeypatch):
    monkeypatch.setattr("ascpipe.figures.advice.advice_of", lambda figures: [])
    done = tune("--last", "--try", "true")
    assert done.exit_code == 1 and "nothing to try" in done.output
