"""Every command that a document shows is run by a test, or tests/house/commands_in_docs.toml says why not."""
import re

import pytest
import tomli

from tests.support import tree

LIST = tomli.loads((tree.ROOT / "tests/house/commands_in_docs.toml").read_text())
COMMAND = re.compile(r"^(?:\$ )?((?:[A-Z_]+=\S+ )*(?:make|ascpipe|python3?|\.venv/bin/\S+|pip|horovodrun|"
                     r"systemctl|curl|docker|uv|conda|pyenv) .+)$")
CODE = ("python", "toml", "ini", "json")  # languages of blocks that hold no commands
SPARED = ("docs/internals/adr/", "CHANGELOG.md")  # as they were written


def commands(text):
    """The commands of the blocks of a document, without comments."""
    for language, block in re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.M | re.S):
        for line in block.splitlines() if language not in CODE else ():
            found = COMMAND.match(line.strip())
            if found:
                yield re.sub(r"\s+#.*$", "", found.group(1)).strip()


def shown():
    return {command for path in tree.text_files(".md") if not tree.name(path).startswith(SPARED)
            for command in commands(path.read_text())}


def test_every_command_of_a_document_is_in_the_list_and_no_other():
    listed = {*LIST["run_by"], *LIST["not_run"]}
    assert (sorted(shown() - listed), sorted(listed - shown())) == ([], [])
    assert len(listed) == len(LIST["run_by"]) + len(LIST["not_run"])


def words(command):
    """What a test that runs a command must name: its verb, its module or its file."""
    known = {"make demo": "examples.dlrm.train", "make soak": "tests.soak", "curl -s": "scrap",
             "python train.py": "METRICS_PORT"}
    parts = [part for part in command.split() if "=" not in part and part not in ("-m", ".venv/bin/python")]
    if " ".join(parts[:2]) in known:
        return known[" ".join(parts[:2])]
    word = parts[1] if parts[0] in ("ascpipe", "python") else parts[0]
    return word.split("/")[-1] if "/" in word else word.split(".")[-1]


@pytest.mark.parametrize("command", sorted(LIST["run_by"]))
def test_the_test_that_runs_a_command_is_there_and_names_it(command):
    path = tree.ROOT / LIST["run_by"][command]
    assert path.exists() and words(command) in path.read_text()


def test_why_a_command_is_not_run_is_a_sentence():
    assert all(len(why.split()) >= 5 for why in LIST["not_run"].values())


def test_commands_are_found_in_blocks_alone_and_comments_are_none():
    text = "make a thing\n```\nmake demo   # trains\n$ ascpipe list\nout put\n```\n```python\nmake = 1\n```\n"
    assert list(commands(text)) == ["make demo", "ascpipe list"]
