"""``ascpipe config show``, and the options of commands that take settings."""
import json
import os
from pathlib import Path

import pytest
import tomli
from click.testing import CliRunner

from ascpipe import config
from ascpipe.cli import main
from ascpipe.cli.setting_options import given


@pytest.fixture
def show(monkeypatch, tmp_path):
    """``ascpipe config show`` in a folder of its own, with an environment that has no settings."""
    monkeypatch.delenv("ASCPIPE_HASH_SEED")
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(main.main, ["config", "show", *arguments])


def test_every_setting_is_shown_with_its_value_and_origin(show, monkeypatch, tmp_path):
    (tmp_path / "here.toml").write_text('ring_bytes = "1GB"\nworkers = 2\nspin_us = 3\n')
    monkeypatch.setenv("ASCPIPE_SPIN_US", "5")
    monkeypatch.setenv("ASCPIPE_WORKERS", "3")
    told = json.loads(show("--json", "--config", "here.toml", "--workers", "4", "--set", "look_ahead=7").output)
    assert set(told) == set(tomli.loads(Path(config.DEFAULTS_FILE).read_text()))
    assert told["ring_bytes"] == {"value": 10**9, "origin": str(tmp_path / "here.toml")}
    assert told["spin_us"] == {"value": 5, "origin": "the environment (ASCPIPE_SPIN_US)"}
    assert told["workers"] == {"value": 4, "origin": "the command line"}
    assert told["look_ahead"] == {"value": 7, "origin": "the command line"}
    assert told["plan_ahead"] == {"value": 8, "origin": "the defaults"}


def test_the_origin_is_a_column_that_has_to_be_asked_for(show):
    assert "the defaults" not in show().output
    rows = [line.split() for line in show("--origin").output.splitlines()]
    assert ["workers", "1", "the", "defaults"] in rows


@pytest.mark.parametrize("arguments, words", [
    (["--set", "wokers=2"], ["E402", "'wokers'", "did you mean workers?"]),
    (["--set", "workers"], ["write NAME=VALUE"]),
    (["--ring-bytes", "128QiB"], ["E402", "'128QiB'"]),
    (["--config", "none.toml"], ["E403", "none.toml"])])
def test_what_cannot_be_is_wrong_usage(show, arguments, words):
    done = show(*arguments)
    assert done.exit_code == 2
    assert all(word in done.output for word in words), done.output


def test_a_variable_that_there_is_not_is_wrong_usage_and_names_the_nearest(show, monkeypatch):
    monkeypatch.setenv("ASCPIPE_WORKER", "3")
    done = show()
    assert (done.exit_code, "E402" in done.output, "did you mean ASCPIPE_WORKERS?" in done.output) == (2, True, True)


def test_an_option_of_its_own_gives_way_to_set():
    assert given(["workers=3"], workers=2, bind_cpu=None) == {"workers": "3"}


def test_a_relative_file_is_made_absolute_for_what_is_started(show, tmp_path):
    (tmp_path / "here.toml").write_text("workers = 2\n")
    show("--config", "here.toml")
    assert os.environ["ASCPIPE_CONFIG"] == str(tmp_path / "here.toml")
