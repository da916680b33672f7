"""What all verbs have in common: a place in the help, JSON where they print figures, exit codes."""
import json

import click
import pytest
from click.testing import CliRunner

from ascpipe.cli import inspect
from ascpipe.cli.main import main
from ascpipe.config import load_settings
from ascpipe.layout.ticket import SEQUENCE_BITS
from tests.support import tree

CONTEXT = click.Context(main)
VERBS = main.list_commands(CONTEXT)
#: they print no figures
WITHOUT_JSON = {"start", "stop", "run", "library", "completion", "dashboard"}
NOT_THERE = [["status"], ["stats"], ["logs"], ["stop"], ["inspect", "user", "1"], ["hotkeys", "user"],
             ["trace", "start"], ["trace", "stop"], ["timeline", "--output", "/nothing"]]


def commands(command, words):
    if isinstance(command, click.Group):
        for name in command.list_commands(CONTEXT):
            yield from commands(command.get_command(CONTEXT, name), [*words, name])
    else:
        yield words, command


ALL = list(commands(main, []))


def test_every_file_with_a_command_is_a_verb():
    files = {path.stem for path in tree.python_files("ascpipe/cli") if "\ndef command(" in path.read_text()}
    assert files == set(VERBS)
    assert len(set(VERBS)) == len(VERBS)


def test_the_help_has_every_verb_once_below_the_title_of_its_group():
    done = CliRunner().invoke(main, ["--help"])
    listed = [line.split()[0] for line in done.output.partition("Daemons and programs:")[2].splitlines()
              if line.startswith("  ") and line[2] != " "]
    assert listed == VERBS
    titles = [line for line in done.output.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options:", "Daemons and programs:", "While it trains:", "After a run:",
                      "Checkpoints and tables:", "Training data:", "This machine:", "Help:"]


def test_no_line_of_the_help_is_cut():
    done = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["--help"])
    assert "..." not in done.output.partition("Options:")[2]


def test_options_of_start_show_the_defaults_of_the_settings():
    done = " ".join(CliRunner().invoke(main, ["start", "--help"]).output.split())
    settings = load_settings({}, {})
    assert settings.ring_bytes == 256 << 20
    for words in ("Number of key workers. [default: {}]".format(settings.workers),
                  "Number of table workers. [default: {}]".format(settings.table_workers),
                  "such as 128MiB. [default: 256MiB]", "[default: {}]".format(settings.metrics_port)):
        assert words in done


@pytest.mark.parametrize("words, command", ALL, ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_every_verb_that_prints_figures_takes_json(words, command):
    options = {option for parameter in command.params for option in parameter.opts}
    assert ("--json" in options) == (words[0] not in WITHOUT_JSON)


@pytest.mark.parametrize("words", [words for words, _ in ALL], ids=" ".join)
def test_an_option_that_there_is_not_is_2(words):
    assert CliRunner().invoke(main, [*words, "--nonsense"]).exit_code == 2


@pytest.mark.parametrize("words, says", [
    (["stauts"], "No such command 'stauts'. Did you mean stats or status?"),
    (["checkpoints"], "No such command 'checkpoints'. Did you mean checkpoint?"),
    (["checkpoint", "lst", "/tmp"], "No such command 'lst'. Did you mean list?"),
    (["xyz"], "No such command 'xyz'. `main -h` lists all."),
    (["config", "xyz"], "No such command 'xyz'. `main config -h` lists all.")], ids=str)
def test_a_verb_that_there_is_not_is_2_and_names_the_nearest(words, says):
    done = CliRunner(mix_stderr=False).invoke(main, words)
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, "Error: " + says)


@pytest.mark.parametrize("words", NOT_THERE, ids=" ".join)
def test_a_daemon_that_there_is_not_is_3_and_said_in_one_line(words):
    done = CliRunner(mix_stderr=False).invoke(main, [*words, "--name", "not-there"])
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)
    assert done.stderr.startswith("ascpipe: E212: ")


@pytest.mark.parametrize("words", [["trace", "start", "--all"], ["trace", "stop", "--all"]], ids=" ".join)
def test_all_daemons_where_none_runs_are_3(words):
    assert CliRunner().invoke(main, words).exit_code == 3


def test_batches_that_pin_a_key_are_printed_as_ranges():
    tickets = [(7 << SEQUENCE_BITS) + sequence for sequence in (13, 12, 11, 20, 31, 30)]
    assert inspect._batches(tickets) == "7:11-13, 7:20, 7:30-31"
    assert inspect._batches([]) == "-"


def test_clean_tells_json_of_what_it_would_remove(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # other tests leave run directories in that of the session
    done = CliRunner().invoke(main, ["clean", "--dry-run", "--json"])
    assert (done.exit_code, json.loads(done.output)) == (0, {"removed": False, "found": []})
