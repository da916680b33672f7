"""Each code of an error stands in one place, and in the documents with what to do."""
import importlib
import re

from ascpipe import errors
from ascpipe.layout import codes
from tests.house import test_public_api as public_api
from tests.support import tree

DOCUMENTS = ("docs/operations.md", "docs/checkpoints.md")


def codes_of_classes():
    importlib.import_module("ascpipe.tfops.load")
    importlib.import_module("ascpipe.checkpoint.errors")
    return {kind.code for kind in errors._subclasses(errors.AscpipeError)}


def test_cpp_has_no_code_but_the_generated_constants():
    wrong = ["{}:{}".format(tree.name(path), number) for path in tree.text_files(".cc", ".h")
             if tree.name(path).startswith("tfops/src")
             for number, line in enumerate(path.read_text().splitlines(), 1)
             if re.search(r"\bE\d{3}\b", line.split("//")[0])]
    assert not wrong, "write Error(kE301, ...), and add the code to ascpipe/layout/codes.py: {}".format(wrong)


def test_every_code_of_cpp_is_used_there_and_is_of_no_other_error():
    text = "\n".join(path.read_text() for path in tree.text_files(".cc", ".h"))
    for error in codes.NATIVE_ERRORS:
        assert re.search(r"\bk{}\b".format(error.code), text), error.code
    assert {error.code for error in codes.NATIVE_ERRORS} & codes_of_classes() == {codes.SUPERVISOR_GONE.code}


def test_the_tree_of_errors_has_every_code():
    every = codes_of_classes() - {code for code in codes_of_classes() if code.startswith("E5") and code != "E500"}
    every |= {error.code for error in codes.NATIVE_ERRORS}
    assert every - {"E100"} <= set(re.findall(r"\bE\d{3}\b", errors.__doc__))


def test_every_code_has_a_line_in_the_documents():
    lines = "\n".join(line for name in DOCUMENTS for line in (tree.ROOT / name).read_text().splitlines()
                      if line.startswith(("|", "- **E")))
    every = codes_of_classes() | {error.code for error in codes.NATIVE_ERRORS}
    assert not sorted(every - {"E100"} - set(re.findall(r"\bE\d{3}\b", lines)))


def test_codes_are_public():
    assert {"error {} {}".format(error.code, "(C++)") for error in codes.NATIVE_ERRORS} <= set(public_api.public())
