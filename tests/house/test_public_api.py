"""What others may rely on is written down; a change of it is made on purpose, with a line in CHANGELOG.md.

Public are the import paths of ``mx_rec``, what ``ascpipe`` exports, the settings, the codes of errors and the
verbs of the command line.  ``tests/house/public_api.txt`` lists them; after a change on purpose:

    python -m tests.house.test_public_api > tests/house/public_api.txt
"""
import importlib
import inspect
import sys

import click
import tomli

from ascpipe import errors, import_hints, standins
from ascpipe.checkpoint import errors as checkpoint_errors
from ascpipe.errors import api_names
from ascpipe.layout import codes
from tests.support import tree

LISTED = tree.ROOT / "tests/house/public_api.txt"


def exported():
    for path in tree.python_files("ascpipe", "mx_rec"):
        for name in tree.assigned_list(path, "__all__") or []:
            yield "{}.{}".format(tree.module_name(path), name)
    for module, homes in standins.HOMES.items():
        for name in homes:
            if name != import_hints.ANY and not name.startswith("_"):
                yield "ascpipe.standins.{}.{}".format(module, name)


def settings():
    for name in tomli.loads((tree.ROOT / "ascpipe/defaults.toml").read_text()):
        yield "setting {}".format(name)


def error_codes():
    for name, value in {**vars(errors), **vars(checkpoint_errors)}.items():
        if inspect.isclass(value) and issubclass(value, errors.AscpipeError):
            yield "error {} {}".format(value.code, name)
    for error in codes.NATIVE_ERRORS:
        yield "error {} (C++)".format(error.code)


def verbs():
    return verbs_of(importlib.import_module("ascpipe.cli.main").main, "ascpipe")


def verbs_of(group, words):
    context = click.Context(group)
    for verb in group.list_commands(context):
        command = group.get_command(context, verb)
        if isinstance(command, click.Group):
            yield from verbs_of(command, words + " " + verb)
        else:
            options = sorted(option for parameter in command.params for option in parameter.opts)
            yield " ".join([words, verb] + options)


def public():
    return sorted(exported()) + sorted(error_codes()) + sorted(settings()) + list(verbs())


def test_public_names_are_those_of_the_list():
    listed = LISTED.read_text().splitlines()
    gone, new = sorted(set(listed) - set(public())), sorted(set(public()) - set(listed))
    assert (gone, new) == ([], []), "if meant, say so in CHANGELOG.md and write the list anew (see the docstring)"


def test_the_import_paths_of_the_rec_sdk_are_there():
    names = set(exported())
    for needed in ("mx_rec.core.embedding.create_table", "mx_rec.core.embedding.sparse_lookup",
                   "mx_rec.core.asc.helper.get_asc_insert_func", "mx_rec.core.asc.feature_spec.FeatureSpec",
                   "mx_rec.core.asc.manager.start_asc_pipeline", "mx_rec.util.initialize.init",
                   "mx_rec.util.initialize.terminate_config_initializer"):
        assert needed in names


def test_names_in_error_texts_exist_in_both_apis():
    names = set(public())
    for ours, theirs in api_names.REC_SDK.items():
        assert "ascpipe.tf." + ours.split("(")[0] in names
        assert any(name.startswith("mx_rec.") and name.endswith("." + theirs.split("(")[0]) for name in names)


if __name__ == "__main__":
    sys.stdout.write("\n".join(public()) + "\n")
