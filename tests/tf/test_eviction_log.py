"""The setting ``eviction_log``: keys that training evicts and that a program deletes, and what ``inspect`` says."""
import json

import pytest
from click.testing import CliRunner

from ascpipe.cli import main
from ascpipe.errors import EvictionLogError
from ascpipe.eviction_log import DELETED, EVICTED, parsed
from ascpipe.tf.running.process import Process
from mx_rec.core.asc import start_asc_pipeline
from mx_rec.util.initialize import trigger_evict
from tests.tf import programs
from tests.tf.one_table import batch, one_table
from tests.tf.test_rows_between_steps import TIERS

BATCHES = [batch(1, 2, 3, time=100), batch(2, 4, time=105), batch(5, time=115), batch(1, time=116)]
ASCPIPE = CliRunner(mix_stderr=False)


def inspected(*arguments):
    name = Process.current().running_pipeline().link.name
    done = ASCPIPE.invoke(main.main, ["inspect", "--name", name, *arguments])
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("private_daemon")
@pytest.mark.parametrize("tier", ["device", "disk"])
def test_each_key_that_is_lost_has_a_line_and_inspect_says_when(tier, tmp_path, monkeypatch):
    path = tmp_path / "lost.tsv"
    monkeypatch.setenv("ASCPIPE_EVICTION_LOG", str(path))
    with one_table(BATCHES, [1], spec={"eviction_threshold": 10, "access_threshold": 2}, **TIERS[tier]) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            for _ in range(3):
                program.take()
            trigger_evict()  # 2 has a row; the other keys occurred once, so they have a count and no row
            assert program.table.delete([5, 77]) == 1
            program.take()
            lines = [parsed(line) for line in path.read_bytes().splitlines()]
            (batch_name,) = {loss.batch for loss in lines}
            assert batch_name.endswith(":3")  # the number of the run is random
            assert sorted((loss.table, loss.key, loss.last_seen, loss.why) for loss in lines) == [
                ("ids", 1, 100, EVICTED), ("ids", 2, 105, EVICTED), ("ids", 3, 100, EVICTED), ("ids", 4, 105, EVICTED),
                ("ids", 5, 115, DELETED)]
            told = json.loads(inspected("--json", "ids", "2", "5", "1", "6"))["keys"]
            assert [one["known"] for one in told] == [False, False, True, False]
            assert told[0]["lost"] == {"time": lines[0].time, "batch": batch_name, "last_seen": 105, "why": EVICTED}
            assert (told[1]["lost"]["why"], told[2]["lost"]["why"], told[3]["lost"]) == (DELETED, EVICTED, None)
            text = inspected("ids", "2", "6")
            assert "key 2 was evicted on {} after batch {}; it was last used at 105".format(
                lines[0].time, batch_name) in text
            assert "key 6 was" not in text


@pytest.mark.usefixtures("private_daemon")
def test_a_log_that_cannot_be_written_is_an_error_before_training(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCPIPE_EVICTION_LOG", str(tmp_path / "missing" / "lost.tsv"))
    with one_table(BATCHES, [1]) as program:
        with pytest.raises(EvictionLogError, match="E228: .*missing/lost.tsv.*No such file.*Nothing was started"):
            start_asc_pipeline()
            with programs.session() as run:
                program.start(run)
