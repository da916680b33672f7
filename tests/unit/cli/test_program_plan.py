"""`ascpipe plan --program`: sums of the tables of a program, what does not fit, and programs that start no pipeline."""
import pytest
from click.testing import CliRunner

from ascpipe.cli import main, plan
from ascpipe.cli.program_plan import Machine, planned, warnings_of

ON_DEVICE = {"name": "user", "dim": 4, "row_floats": 8, "device_rows": 1000, "home_rows": 0, "disk_rows": 0,
             "directories": [], "expands": False}
ON_DISK = {"name": "item", "dim": 8, "row_floats": 16, "device_rows": 100, "home_rows": 2100, "disk_rows": 52000,
           "directories": ["/ssd/a", "/ssd/b"], "expands": False}
GROWS = {**ON_DEVICE, "name": "ad", "device_rows": 0, "home_rows": 10**8, "expands": True}
ROOMY = Machine(1 << 50, "the machine has much", 1 << 50, {"/ssd/a": (1, 1 << 50), "/ssd/b": (2, 1 << 50)})
MIB = 1 << 20


def plan_of(*tables, ranks=1):
    return planned({"tables": tables, "rings": 2}, ranks, MIB)


def test_a_table_of_a_program_is_planned_like_the_same_table_by_numbers():
    told = plan_of(ON_DEVICE, ON_DISK)
    by_numbers = [plan.figures(plan.Shape(1000, 4, "adagrad", 1000, 0, 0)),
                  plan.figures(plan.Shape(52000, 8, "adagrad", 100, 2000, 50000))]
    for table, expected in zip(told["tables"], by_numbers):
        assert {name: table[name] for name in expected} == expected
    assert told["memory_bytes"] == sum(each["memory_bytes"] for each in by_numbers) + 2 * MIB
    assert told["disk_bytes"] == by_numbers[1]["disk_bytes"] > 0


def test_ranks_share_the_rows_and_have_two_rings_for_a_stream():
    one, two = plan_of(ON_DEVICE, ON_DISK), plan_of(ON_DEVICE, ON_DISK, ranks=2)
    assert (two["rings"], two["ring_bytes"]) == (8, 8 * MIB)
    assert [table["keys"] for table in two["tables"]] == [500, 26000]
    for name in ("device_bytes", "host_bytes", "key_bytes"):
        assert two[name] == pytest.approx(one[name], rel=0.01)


def test_shared_memory_has_the_rows_of_the_host_the_keys_and_the_rings():
    told = plan_of(ON_DEVICE, ON_DISK, ranks=2)
    assert told["shared_bytes"] == told["host_bytes"] + told["key_bytes"] + told["ring_bytes"]
    assert told["shared_bytes"] == told["memory_bytes"] - told["device_bytes"]


def test_a_plan_that_fits_has_no_warning():
    assert warnings_of(plan_of(ON_DEVICE, ON_DISK), ROOMY) == []


@pytest.mark.parametrize("here, words", [
    (ROOMY._replace(memory_bytes=MIB), "of memory, but the machine has much"),
    (ROOMY._replace(shm_bytes=MIB), "shared memory has 1.05 MB free"),
    (ROOMY._replace(disks={"/ssd/a": (1, 1 << 50), "/ssd/b": (2, 1000)}), "the disk of /ssd/b has 1.00 kB free")])
def test_what_does_not_fit_is_a_warning_with_both_numbers(here, words):
    (warning,) = warnings_of(plan_of(ON_DEVICE, ON_DISK), here)
    assert words in warning


def test_two_directories_on_one_disk_need_their_space_there_together():
    told = plan_of(ON_DISK)
    free = told["disk_bytes"] - 1
    both = {"/ssd/a": (1, free), "/ssd/b": (1, free)}
    assert len(warnings_of(told, ROOMY._replace(disks=both))) == 1
    apart = {"/ssd/a": (1, free), "/ssd/b": (2, free)}
    assert warnings_of(told, ROOMY._replace(disks=apart)) == []


def test_a_table_that_grows_is_named_and_is_not_part_of_the_sums():
    told = plan_of(ON_DEVICE, GROWS)
    assert told["memory_bytes"] == plan_of(ON_DEVICE)["memory_bytes"]
    (warning,) = warnings_of(told, ROOMY)
    assert "'ad'" in warning and "102 bytes" in warning


def ascpipe(*arguments):
    return CliRunner(mix_stderr=False).invoke(main.main, ["plan", *map(str, arguments)])


@pytest.mark.parametrize("arguments, words", [
    ([], "Missing option '--keys'"), (["--keys", "5"], "Missing option '--dim'"),
    (["--keys", "5", "--program", __file__], "give one of them"), (["extra"], "unexpected extra argument (extra)"),
    (["--program", "/nothing.py"], "does not exist"),
    (["--program", __file__, "--min-buckets", "5"], "--min-buckets is for --columns")])
def test_wrong_usage_is_2_and_names_the_option(arguments, words):
    done = ascpipe(*arguments)
    assert (done.exit_code, words in done.stderr) == (2, True), done.stderr
