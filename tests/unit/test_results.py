"""Results of suites are written, read and summed up."""
import subprocess
import sys

import pytest

from tests import results
from tests.support import costs, leaks, patience
from tests.support.costs import Cost, Result


def result(suite="unit", *, passed=3, failed=0, error=0, skipped=0, of_files=None):
    outcomes = dict(zip(costs.OUTCOMES, (passed, failed, error, skipped)))
    return Result(suite, outcomes, Cost(0, 9.0, 4.0, 1.0), of_files or {})


def test_results_are_read_as_they_were_written(tmp_path):
    written = [result("cpp"), result("unit", of_files={"tests/unit/test_x.py": Cost(2, 1.5, 0.5, 0.25, 3, 1)})]
    for one in written:
        costs.write(tmp_path / "results", one)
    assert costs.read(tmp_path / "results") == written


def test_the_closing_line_has_the_sums_of_all_suites():
    ended = {"unit": result(passed=3, skipped=2), "cpp": result("cpp", passed=4, failed=1, error=2)}
    assert results.summary(ended, ["unit", "cpp"])[-1] == "7 passed, 3 failed, 2 skipped"


def test_a_suite_without_a_result_is_a_failure():
    lines = results.summary({"unit": result()}, ["unit", "fault"])
    assert lines[-1] == "3 passed, 1 failed, 0 skipped"
    assert lines[-2].split() == ["fault", "crashed:", "it", "has", "no", "result"]


def test_the_exit_code_tells_failures_and_suites_without_a_result(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    costs.write(tmp_path, result("unit"))
    costs.write(tmp_path, result("cpp", failed=1))
    assert [results.main(["summary", *suites]) for suites in (["unit"], ["unit", "cpp"], ["unit", "tf"])] == [0, 1, 1]
    assert "3 passed, 0 failed, 0 skipped" in capsys.readouterr().out


def test_a_summary_names_the_files_above_the_bound_the_longest_first():
    files = {"tests/a.py": Cost(1, 9.0, 15.0, 6.0), "tests/b.py": Cost(1, 99.0, 15.0, 5.0),
             "tests/c.py": Cost(1, 9.0, 0.5, 40.0)}
    lines = results.summary({"unit": result(of_files=files), "cpp": result("cpp")}, ["unit", "cpp"])
    assert lines[3:-1] == ["files that took more than 20 s of processor time:", "      40  tests/c.py (unit)",
                           "      21  tests/a.py (unit)"]
    assert len(results.summary({"cpp": result("cpp")}, ["cpp"])) == 3


def test_rows_of_costs_are_sorted_by_processor_time():
    files = {"tests/a.py": Cost(1, 8.0, 0.5, 0.25, 2, 1), "tests/b.py": Cost(2, 7.0, 3.0, 1.0, 0, 0)}
    lines = results.cost_tables({"unit": result(of_files=files)})
    assert lines[2] == "| unit | 3 | 9 | 5 | 1 | 2 | 1 |"
    assert [line.split("`")[1] for line in lines if "`" in line] == ["tests/b.py", "tests/a.py"]


def test_a_meter_counts_processes_and_daemons_of_a_test():
    meter, found = costs.Meter(), {}
    meter.install()
    try:
        for _ in meter.measured(found, "tests/a.py"):
            subprocess.run([sys.executable, "-c", "pass"], check=True)
            subprocess.run([sys.executable, "-c", "'ascpipe.daemon.start'"], check=True)
    finally:
        meter.remove()
    cost = found["tests/a.py"]
    assert (cost.tests, cost.processes, cost.daemons) == (1, 2, 1)
    assert cost.wall_s > 0 and cost.children_s > 0


def test_a_test_has_the_processor_time_of_processes_that_serve_several_tests():
    work = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    serve = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', {!r}])".format(work)
    server = subprocess.Popen([sys.executable, "-c", serve], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    leaks.spare(server.pid, "")
    try:
        meter, found = costs.Meter(), {}
        for _ in meter.measured(found, "tests/a.py"):
            server.stdout.readline()
        for _ in meter.measured(found, "tests/b.py"):
            server.communicate(b"\n")
    finally:
        leaks.spare_no_more(server.pid)
    assert found["tests/a.py"].children_s > 0.25
    assert found["tests/b.py"].children_s < 0.15


@pytest.mark.parametrize("load, cores, factor", [(0.0, 2, 1.0), (2.0, 2, 1.0), (3.0, 2, 1.5), (30.0, 2, 15.0)])
def test_limits_grow_with_the_number_of_processes_per_core(load, cores, factor):
    assert patience.factor(load, cores) == factor
