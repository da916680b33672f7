"""A pytest plugin that writes the outcome of each test into a file as soon as it is known.

What was written before a crash, or before a run is killed, is not lost.
"""
import json
import os

VARIABLE = "PLANTED_FAULTS_OUTCOMES"  #: environment variable with the path of the file


def pytest_runtest_logreport(report):
    """Write a line for each test that passed, and for each phase that failed or was skipped."""
    if report.outcome != "passed" or report.when == "call":
        _write(report.nodeid, report.outcome, report.when)


def pytest_collectreport(report):
    """Write a line for a file that could not be collected."""
    if report.failed:
        _write(report.nodeid, "failed", "collect")


def _write(test, outcome, when):
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
        file.write(json.dumps([test, outcome, when]) + "\n")
