"""What a program logs by our logger, and what the screen shows of ours and TensorFlow's."""
import logging
import os
import subprocess
import sys

import pytest

from ascpipe import program_log
from ascpipe.tf import Saver
from tests.support.covering import some
from tests.support.tensorflows import IS_TENSORFLOW_1
from tests.support.tree import ROOT
from tests.tf import programs


def stderr_of(text, *command, **environment):
    """What a program prints to standard error."""
    variables = {name: value for name, value in os.environ.items() if name != "MXREC_LOG_LEVEL"}
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "ascpipe" / "standins")))  # as `ascpipe run` sets it
    variables.update({"PYTHONPATH": paths, "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3", **environment})
    done = subprocess.run([sys.executable, *command, text], env=variables, stderr=subprocess.PIPE, timeout=50,
                          text=True)
    return done.stderr


LOGS = """\
import logging
{before}
from {module} import logger
{after}
for level in ("debug", "info", "warning"):
    getattr(logger, level)("a word of %s", level)
"""


def lines(before="", after="", module="rec_sdk_common.log", **environment):
    """The program's own lines: the level and words of each, without what stands before them."""
    said = stderr_of(LOGS.format(before=before, after=after, module=module), "-c", **environment)
    return [line for line in said.splitlines() if "a word" in line]


def words(said):
    return [line.split("a word of ")[1] for line in said]


@pytest.mark.parametrize("module", ["mx_rec.util.log", "rec_sdk_common.log",
                                    "mx_rec_common.log"])
def test_a_program_that_sets_nothing_up_sees_its_lines_on_the_screen(module):
    said = lines(module=module)
    assert words(said) == ["info", "warning"]
    assert " INFO mx_rec: " in said[0] and " WARNING mx_rec: " in said[1]


@pytest.mark.parametrize("level, shown", [
    ("DEBUG", 3), ("debug", 3), ("Info", 2), ("WARN", 1), ("Warning", 1), ("error", 0), ("CRITICAL", 0), ("fatal", 0)])
def test_the_level_is_that_of_the_environment_in_any_case(level, shown):
    assert len(lines(MXREC_LOG_LEVEL=level)) == shown


@pytest.mark.parametrize("level", some(["", "verbose", "10", "debug "], "", "debug "))
def test_a_level_that_is_none_is_an_error_when_mx_rec_is_imported(level):
    said = stderr_of("import mx_rec", "-c", MXREC_LOG_LEVEL=level)
    text = "E274: Environment variable MXREC_LOG_LEVEL has the value {!r}. Set it to one of DEBUG, INFO"
    assert text.format(level) in said


CARD = """\
from npu_bridge.npu_init import *
{imports}
config = tf.compat.v1.ConfigProto()
card = config.graph_options.rewrite_options.custom_optimizers.add()
card.name = "NpuOptimizer"
card.parameter_map["use_off_line"].b = True
card.parameter_map["precision_mode"].s = b"allow_mix_precision"
card.parameter_map["deterministic"].i = 1
config.graph_options.rewrite_options.custom_optimizers.add().name = "another"
for _ in range(2):
    tf.compat.v1.Session(config=config).close()
tf.compat.v1.Session().close()
NPURunConfig(save_checkpoints_steps=5, iterations_per_loop=2, hcom_parallel=True, dump_config=DumpConfig())
"""


@pytest.mark.parametrize("imports", ["import mx_rec", ""])
def test_options_of_a_card_without_effect_are_listed_once(imports):
    said = stderr_of(CARD.format(imports=imports), "-c")
    assert [line.split(" INFO mx_rec: ")[1] for line in said.splitlines() if "no effect" in line] == [
        "NpuOptimizer: these parameters have no effect without an Ascend card: precision_mode, use_off_line",
        "NPURunConfig: these arguments have no effect without an Ascend card: dump_config, hcom_parallel"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_program_that_configures_the_root_logger_sees_each_line_once_as_it_wishes(when):
    said = lines(**{when: "logging.basicConfig(level=logging.WARNING, format='MINE %(message)s')"})
    assert words(said) == ["info", "warning"]
    assert all(line.startswith("MINE ") for line in said)


def test_a_handler_of_the_program_s_own_at_the_logger_shows_each_line_once():
    assert words(lines(after="logger.addHandler(logging.StreamHandler())")) == ["info", "warning"]


def test_a_file_of_all_lines_leaves_the_screen_as_it_is(tmp_path):
    said = lines(before="logging.basicConfig(level='INFO', filename={!r})".format(str(tmp_path / "log")))
    assert words(said) == ["info", "warning"]
    assert (tmp_path / "log").read_text().count("a word") == 2


def test_a_level_that_the_program_has_set_stays():
    assert words(lines(before="logging.getLogger('mx_rec').setLevel('ERROR')")) == []


def test_the_logger_gets_its_handler_once():
    import mx_rec.util.log
    logger = program_log.program_logger()
    assert logger is mx_rec.util.log.logger is program_log.program_logger()
    assert len([handler for handler in logger.handlers if isinstance(handler, program_log._Screen)]) == 1


def test_under_ascpipe_run_levels_are_known_in_any_spelling(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import logging\nlogging.basicConfig(level='Debug')\nlogging.getLogger('x').setLevel('Info')\n"
                       "logging.getLogger('x').setLevel('warning')\nlogging.debug('seen')")
    assert stderr_of(str(program), "-m", "ascpipe", "run") == "DEBUG:root:seen\n"


def test_tensorflow_names_the_checkpoint_that_was_asked_for_when_it_restores(tmp_path, caplog):
    source = programs.batches(2)
    with programs.ascpipe():
        program = programs.Program(source, lambda: programs.optimizer("gradient_descent", 0.5))
        saver = Saver()
        with programs.session() as run:
            program.initialise(run)
            run.run(program.train)
            prefix = saver.save(run, str(tmp_path / "model"), global_step=1)
            with caplog.at_level(logging.INFO, "tensorflow"):
                saver.restore(run, prefix)
    said = [record.getMessage() for record in caplog.records if "Restoring" in record.getMessage()]
    assert said == ["Restoring parameters from {}".format(prefix)]
    assert logging.getLogger("tensorflow").filters == []


SAVES = """\
import tensorflow as tf
from tests.tf import programs
from tests.support.tensorflows import use_tensorflow_1
from ascpipe.tf import Saver
use_tensorflow_1()
tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.INFO)
with programs.ascpipe():
    source = programs.batches(4)
    program = programs.Program(source, lambda: programs.optimizer("lazy_adam", 0.1), eval_source=source)
    saver = Saver(max_to_keep=1)
    with programs.session() as run:
        program.initialise(run)
        for step in range(3):
            run.run(program.train)
            prefix = saver.save(run, {folder!r} + "/model", global_step=step)
        saver.restore(run, prefix)
    print("done")
"""


def test_no_warning_of_tensorflow_names_a_file_of_ours(tmp_path):
    said = stderr_of(SAVES.format(folder=str(tmp_path)), "-W", "default", "-c", ASCPIPE_RING_BYTES=str(1 << 20))
    assert "Restoring parameters from" in said, said
    # The program of this test calls a function that is deprecated in TensorFlow 2.15.
    ours = [line for line in said.splitlines() if "deprecated" in line and str(ROOT) in line
            and "site-packages" not in line and (IS_TENSORFLOW_1 or str(ROOT / "tests") not in line)]
    assert ours == []


FETCHES_A_LOOKUP = """\
import numpy as np
import tensorflow as tf
import ascpipe.tf as asc
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()
asc.init()
specs = [asc.FeatureSpec(name, table_name=name) for name in ("item", "user")]
source = tf.data.Dataset.from_tensor_slices({name: np.arange(8).reshape(2, 4) for name in ("item", "user")})
iterator = tf.compat.v1.data.make_initializable_iterator(source.map(asc.insert_function(specs)))
batch = iterator.get_next()
tables = [asc.create_table(spec.table_name, dim=2, device_vocabulary_size=100, initializer=tf.ones_initializer())
          for spec in specs]
rows = [asc.sparse_lookup(table, spec, batch=batch) for table, spec in zip(tables, specs)]
joined = tf.concat(rows, axis=1)
train = asc.optimizers.Adagrad(0.1).minimize(tf.reduce_sum(joined))
asc.start()
with tf.compat.v1.Session() as session:
    session.run([tf.compat.v1.global_variables_initializer(), iterator.initializer])
    session.run([joined, train])
    session.run([joined, rows[1], train])
with tf.compat.v1.Session() as session:  # compiles the same step again, as a notebook does
    session.run([tf.compat.v1.global_variables_initializer(), iterator.initializer])
    session.run([joined, rows[1], train])
asc.shutdown()
"""


def test_the_first_run_of_fetches_says_once_which_lookups_stay_apart_and_why():
    said = stderr_of(FETCHES_A_LOOKUP, "-c", TF_CPP_MIN_LOG_LEVEL="0", ASCPIPE_RING_BYTES=str(1 << 20))
    told = [line.partition("ascpipe: of a step ")[2] for line in said.splitlines() if "of a step" in line]
    assert told == ["with 2 lookups, these ops stay apart: 'ascpipe/user_training/AscLookup': it is fetched"], said
