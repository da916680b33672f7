"""Each code of an error stands in one place, and in the documents with what to do."""
import importlib
import re

import pytest

from ascpipe import errors
from ascpipe.cli import explain
from ascpipe.errors.explanations import EXPLANATIONS
from ascpipe.layout import codes
from tests.house import test_public_api as public_api
from tests.support import tree


def codes_of_classes():
    importlib.import_module("ascpipe.tfops.load")
    importlib.import_module("ascpipe.checkpoint.errors")
    return {kind.code for kind in errors._subclasses(errors.AscpipeError)}


def test_cpp_has_no_code_but_the_generated_constants():
    wrong = ["{}:{}".format(tree.name(path), number) for path in tree.text_files(".cc", ".h")
             if tree.name(path).startswith("tfops/src")
             for number, line in enumerate(tree.lines(path), 1)
             if re.search(r"\bE\d{3}\b", line.split("//")[0])]
    assert not wrong, "write Error(kE301, ...), and add the code to ascpipe/layout/codes.py: {}".format(wrong)


def test_every_code_of_cpp_is_used_there_and_is_of_no_other_error():
    text = "\n".join(path.read_text() for path in tree.text_files(".cc", ".h"))
    for error in codes.NATIVE_ERRORS:
        assert re.search(r"\bk{}\b".format(error.code), text), error.code
    # Python raises these codes too: when a daemon dies, and for files of training data.
    shared = {codes.SUPERVISOR_GONE.code} | {code for code in codes_of_classes()
                                                     if "E330" <= code <= "E335" or code == "E340"}
    assert {error.code for error in codes.NATIVE_ERRORS} & codes_of_classes() == shared


def test_the_tree_of_errors_has_every_code():
    every = codes_of_classes() - {code for code in codes_of_classes() if code.startswith("E5") and code != "E500"}
    every |= {error.code for error in codes.NATIVE_ERRORS}
    assert every - {"E100"} <= set(re.findall(r"\bE\d{3}\b", errors.__doc__))


def test_every_code_has_an_explanation_and_every_explanation_a_code():
    every = codes_of_classes() | {error.code for error in codes.NATIVE_ERRORS}
    assert set(EXPLANATIONS) == every - {"E100"}
    assert list(EXPLANATIONS) == sorted(EXPLANATIONS)


@pytest.mark.parametrize("code", sorted(EXPLANATIONS))
def test_an_explanation_says_what_became_of_the_data_and_what_to_do_in_sentences(code):
    for text in EXPLANATIONS[code]:
        assert re.match(r"[A-Z`].*\.$", text), text


def test_the_document_is_what_the_command_says():
    document = "docs/reference/errors.md"
    assert (tree.ROOT / document).read_text() == explain.page(), "ascpipe explain --markdown > " + document


def test_codes_that_the_documents_name_exist():
    named = {code for path in tree.text_files(".md") if tree.name(path).startswith("docs/")
             for code in re.findall(r"\bE[1-6]\d{2}\b", path.read_text())}
    assert not sorted(named - set(EXPLANATIONS))


def test_codes_are_public():
    assert {"error {} {}".format(error.code, "(C++)") for error in codes.NATIVE_ERRORS} <= set(public_api.public())
