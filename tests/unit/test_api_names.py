"""Error texts name the functions of the API that the program uses."""
import sys

import pytest

from ascpipe import errors
from ascpipe.errors import api_names

TEXT = "call asc.start(), asc.FeatureSpec(is_timestamp=True) or asc.reset()"
NAMES_OF_REC_SDK = ("call start_asc_pipeline() (modify_graph_and_start_emb_cache() if lookups take tensors), "
                    "FeatureSpec(is_timestamp=True) or ascpipe.tf.reset()")


@pytest.fixture(autouse=True)
def before_init(monkeypatch):
    monkeypatch.setattr(api_names, "_uses_rec_sdk", None)
    monkeypatch.delitem(sys.modules, "mx_rec", raising=False)


def test_a_program_without_mx_rec_reads_names_of_asc():
    assert str(errors.CallOrderError(TEXT)) == "E263: " + TEXT


def test_a_program_that_imported_mx_rec_reads_its_names_before_init(monkeypatch):
    monkeypatch.setitem(sys.modules, "mx_rec", sys)
    assert str(errors.CallOrderError(TEXT)) == "E263: " + NAMES_OF_REC_SDK


@pytest.mark.parametrize("rec_sdk, expected", [(True, NAMES_OF_REC_SDK), (False, TEXT)])
def test_init_selects_the_names(monkeypatch, rec_sdk, expected):
    monkeypatch.setitem(sys.modules, "mx_rec", sys)
    api_names.use(rec_sdk)
    assert str(errors.CallOrderError(TEXT)) == "E263: " + expected


def test_a_text_from_another_process_is_not_changed():
    api_names.use(rec_sdk=True)
    assert str(errors.received("E112", "run asc.start()")) == "E112: run asc.start()"
