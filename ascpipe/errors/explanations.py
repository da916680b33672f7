"""Explanations of all error codes: the meaning, the consequences for data, and the recommended action.

``ascpipe explain`` prints the explanations, and ``docs/reference/errors.md`` is generated from the explanations::

    ascpipe explain --markdown > docs/reference/errors.md
"""
from typing import Dict

from ascpipe.errors.data_explanations import DATA
from ascpipe.errors.usage_explanations import EXPECTED, NOTHING, UNTRAINED, USAGE, Explanation

_LOST = "Training since the last checkpoint is lost."
_RESTART = "Restart the program from its last checkpoint."
_AGAIN = "Start a named daemon again (`ascpipe start`). " + _RESTART
_RESTART_RANKS = "restart all ranks from the last checkpoint."
_INTACT = "Tables and other checkpoints are unchanged."
_SESSION = "The session is not affected."
_RANKS = "Run `make ranks` in the source tree, or `pip install --no-build-isolation \"ascpipe[ranks]\"`."

_OTHERS: Dict[str, Explanation] = {
    "E110": Explanation(
        "The daemon died while a trainer used it, for example because memory ran out.", _LOST,
        "Read the daemon's log: `ascpipe logs --failed` for a private daemon, `ascpipe logs --name NAME` for a "
        "named daemon. The kernel's log reports out-of-memory kills. " + _AGAIN),
    "E112": Explanation(
        "Communication with the daemon failed for a reason that has no other code.",
        "The message says what was changed. A running session continues.", "Read the daemon's log (`ascpipe logs`)."),
    "E113": Explanation(
        "`ascpipe stop` or a signal stopped the daemon while it served a trainer.", _LOST, _AGAIN),
    "E120": Explanation(
        "A worker failed for a reason that has no other code, or `ascpipe warmup` cannot compile the kernels.",
        "If a program was training, its training since the last checkpoint is lost.",
        "Read the worker's log (`ascpipe logs --worker WORKER`). " + _RESTART),
    "E122": Explanation(
        "A table worker died of a signal other than SIGKILL, or exited without an error report. The worker may have "
        "damaged the tables.", _LOST, _RESTART),
    "E123": Explanation(
        "A step waited for its batch longer than `wait_timeout_s`.",
        "The step did not run, and its batch is skipped. The session continues.",
        "`ascpipe status` shows what each process waits for. Run the next step, or raise `wait_timeout_s`. Train "
        "from one thread, because threads that train on two streams can block each other. Close the session of "
        "a training graph before another session trains the same tables."),
    "E130": Explanation(
        "A key worker died of a signal other than SIGKILL, or exited without an error report.", _LOST, _RESTART),
    "E132": Explanation(
        "The disk worker died of a signal other than SIGKILL, or exited without an error report.",
        "The rows on disk are lost. " + _LOST,
        _RESTART),
    "E140": Explanation(
        "A worker was killed repeatedly and is no longer replaced. The usual cause is a lack of memory.", _LOST,
        "Raise the memory limit of the cgroup (container, `MemoryMax=`), or use smaller tables and rings. " + _RESTART),
    "E199": Explanation(
        "The daemon has a later version of ascpipe, and sent an error code that this version does not know.",
        "The message says what was changed.",
        "Install the same version for the program and the daemon, then restart the daemon."),
    "E204": Explanation(
        "A process forked from the trainer ran an op of the pipeline.", _SESSION,
        "Run the op in the trainer, or start the process with multiprocessing's `spawn`."),
    "E205": Explanation(
        "A session ran a lookup, but the pipeline of its graph was not started before the first run of this session, "
        "or was shut down.", NOTHING,
        "Call `asc.start()` after the graph is built and before the first `session.run()`. For an Estimator, pass the "
        "hook `asc.StartHook()`. With `mx_rec`, call `start_asc_pipeline()`, or pass "
        "`GraphModifierHook(modify_graph=False)`. If lookups take tensors, call "
        "`modify_graph_and_start_emb_cache()`, or pass `GraphModifierHook()`."),
    "E206": Explanation(
        "A session trained a table after a session that was created later had trained it.",
        "The step trained nothing. Training in the later session is not affected.",
        "Close the earlier session, or create a new session to continue training there."),
    "E210": Explanation(
        "The daemon already serves another trainer.", _SESSION,
        "Wait until the other trainer exits, or unset ASCPIPE_NAME to use a private daemon."),
    "E211": Explanation(
        "A daemon with the requested name is already running.", _SESSION,
        "Stop the running daemon with `ascpipe stop --name`, or choose another `--name`."),
    "E212": Explanation(
        "No daemon with the requested name runs, or several daemons run and no name was given.", NOTHING,
        "Start a daemon with `ascpipe start`, pass another name (`ascpipe list`), or unset ASCPIPE_NAME. Program and "
        "daemon must have the same XDG_RUNTIME_DIR."),
    "E213": Explanation(
        "A daemon or worker failed to start.", NOTHING,
        "The message states the reason or names the log. `ascpipe doctor` checks the requirements."),
    "E214": Explanation(
        "A directory is not safe or cannot be used. Run directories must have mode 0700, and other users must not be "
        "able to write to folders of compiled kernels.", NOTHING,
        "Correct the owner and mode of the directory, or use another directory. For the run directory, run "
        "`export XDG_RUNTIME_DIR=$(mktemp -d)` in every shell that uses the daemon. For compiled kernels, set "
        "ASCPIPE_CACHE_DIR."),
    "E215": Explanation(
        "The name of the daemon is invalid. Valid names have 1 to 48 characters (A-Z a-z 0-9 _ . -) and do not "
        "start with a dot or dash.", NOTHING, "Choose another `--name` or ASCPIPE_NAME."),
    "E216": Explanation(
        "The path of a socket is longer than the kernel's limit of 107 bytes.", NOTHING,
        "Use a shorter `--name` or XDG_RUNTIME_DIR."),
    "E217": Explanation(
        "The daemon refused a request, because the sender is not the registered trainer, or belongs to another "
        "user.", _SESSION, "Only the trainer can change or end its session. Use `ascpipe stop` to stop the daemon."),
    "E218": Explanation(
        "The daemon runs but did not answer in time. The daemon may be stopped by a signal or have an earlier version, "
        "or the machine may be overloaded.", _SESSION,
        "Continue a stopped daemon with `kill -CONT PID`. End a daemon of an earlier version with `kill PID`. The "
        "message and `ascpipe list` contain the PID."),
    "E219": Explanation(
        "The daemon cannot execute a request, such as a second start, in its current state.", _SESSION,
        "The message says what is required before the request."),
    "E220": Explanation(
        "Trainer and daemon have different versions of ascpipe, whose shared-memory layouts differ.", NOTHING,
        "Install the same version for trainer and daemon, then restart the daemon."),
    "E221": Explanation(
        "The TensorFlow ops are not built.", NOTHING,
        "Run `make build` in the source tree, or install a wheel."),
    "E222": Explanation(
        "The TensorFlow ops were built for a different TensorFlow, C++ ABI, ascpipe version or memory layout. "
        "`ascpipe doctor` shows the versions.", NOTHING,
        "Run `make build` in the source tree, or install the TensorFlow that the wheel was built for."),
    "E223": Explanation(
        "The file system of the run directory or kernel cache has no free space or inodes.", NOTHING,
        "Run `ascpipe clean`, free disk space, or use other directories (XDG_RUNTIME_DIR, ASCPIPE_CACHE_DIR)."),
    "E224": Explanation(
        "Metrics cannot be exported, because the port is in use or the file cannot be created.", NOTHING,
        "Choose another `metrics_port` or `metrics_file`, or remove the setting."),
    "E225": Explanation(
        "Metrics are enabled, but the package prometheus_client is not installed.", NOTHING,
        "Run `pip install \"ascpipe[metrics]\"`, or remove the setting."),
    "E226": Explanation(
        "An installed package does not contain the C++ sources, so the ops cannot be compiled from it.",
        NOTHING, "In the source tree, build a wheel for your TensorFlow (docs/how-to/install.md)."),
    "E227": Explanation(
        "Two packages named mx_rec are installed: ascpipe-mx-rec and a package of another product.", NOTHING,
        "Run `pip uninstall ascpipe-mx-rec`, remove the other package, or use separate environments "
        "(docs/how-to/install.md)."),
    "E228": Explanation(
        "The log of evicted and deleted keys cannot be written. If this happens before training, the daemon does not "
        "start. During training, lines of the log are lost.",
        "The keys are evicted or deleted, and training continues.",
        "Free space on the disk of `eviction_log`, choose another file, or remove the setting."),
    "E229": Explanation(
        "The dashboard cannot be served, because its port cannot be opened.", NOTHING,
        "Choose another `dashboard_port`, or another `--port` of `ascpipe dashboard`. Port 0 chooses a free port."),
    "E230": Explanation(
        "A control message does not match the schema and was dropped.", _SESSION,
        "Check whether the sender has another version of ascpipe, and read the sender's log."),
    "E231": Explanation(
        "The other process (trainer or daemon) closed a control socket.", "The next error message has the details.",
        "Read the daemon's log (`ascpipe logs`)."),
    "E232": Explanation(
        "The other process (trainer or daemon) did not send or receive a control message in time.", _SESSION,
        "Read the daemon's log (`ascpipe logs`)."),
    "E233": Explanation(
        "The program of `ascpipe plan --program` did not start its pipeline. The program ended earlier, or took longer "
        "than `--timeout`.", NOTHING,
        "Check that `ascpipe run` trains the program. For a program with feature columns, pass `--columns`."),
    "E234": Explanation(
        "`ascpipe report` or `ascpipe tune` has no record of the run, or the record is damaged or has fewer than "
        "two samples.", NOTHING, "`ascpipe report` lists the recorded runs (setting recorded_runs)."),
    "E240": Explanation(
        "Ranks cannot be started, or cannot reach each other.", NOTHING, "The message has the reason."),
    "E241": Explanation("Horovod cannot be imported. Several ranks need Horovod and TensorFlow 1.15.", NOTHING, _RANKS),
    "E242": Explanation("The installed version of Horovod is not supported.", NOTHING, _RANKS),
    "E243": Explanation(
        "Horovod and the launcher report different ranks for this process.", NOTHING,
        "Call `hvd.init()` without arguments, and start all ranks with one launcher."),
    "E244": Explanation(
        "Rank 0 called `read`, `assign` or `delete` of a table, and another rank could not read or change its "
        "own rows.", "The message says whether tables were changed.",
        "Correct the cause. If the message reports different rows, restart all ranks from a checkpoint."),
    "E250": Explanation(
        "`lookup_sparse` received a wrong argument. For example, ids are not a SparseTensor or RaggedTensor, or a "
        "rank, shape or dtype is wrong.", NOTHING, EXPECTED),
    "E251": Explanation(
        "A feature column with a table is used in a way that only a variable supports. For example, the "
        "optimizer does not support tables, or the column has `ckpt_to_load_from`.", UNTRAINED,
        "The message says what to use instead."),
    "E252": Explanation(
        "The loss depends on rows of a table, but no optimizer of the graph updates the table. TensorFlow's "
        "optimizers do not find tables, because tables are not among `tf.trainable_variables()`.", UNTRAINED,
        "Use an optimizer of `asc.optimizers`. If you pass a list of variables to the optimizer, add "
        "`asc.table_variables()`, or `table.variable` of single tables. To freeze a table, look it up with "
        "`trainable=False` (docs/how-to/tables_and_variables.md)."),
    "E253": Explanation(
        "The program uses a table in a way that only a TensorFlow variable supports. Examples are a dense "
        "gradient, an access to the whole variable, and an optimizer that updates all rows, such as AdamW. "
        "Gradients cannot be kept for a later step. A graph that is converted to constants, or comes from "
        "`import_meta_graph`, cannot read tables.", UNTRAINED,
        "The message names the op and the alternative (docs/how-to/tables_and_variables.md)."),
    "E301": Explanation(
        "A plan, entry or row number in shared memory is invalid, because a process overwrote it. With several ranks, "
        "the cause may also be a damaged message of another rank.", "The step or save failed. " + _LOST, _RESTART),
    "E302": Explanation(
        "A segment of shared memory cannot be created, or has an unexpected type, size or owner.", NOTHING,
        "If trainer and daemon have different versions, install the same version, then restart the daemon."),
    "E310": Explanation(
        "Other ranks did not join an exchange in time.",
        "The abandoned exchange updated no table of this rank. " + _LOST,
        "Find the rank that is stopped, late or busy, and read its output. Then " + _RESTART_RANKS),
    "E311": Explanation(
        "A step failed after the ranks had exchanged rows, but before they had exchanged gradients. Some tables may "
        "already contain the updates of this step.", "The session can no longer train or save. " + _LOST,
        "Correct the cause, which the message names for each rank, and then " + _RESTART_RANKS),
    "E312": Explanation(
        "The exchange with other ranks ended, because a rank exited or was killed.", _LOST,
        "Correct the failure of the rank that the launcher names, and then " + _RESTART_RANKS),
    "E313": Explanation(
        "Ranks differ in versions, tables, optimizers, thresholds, the program's collectives, or the positions of "
        "their files.", "This step trained nothing. " + _LOST,
        "Run the same program with the same arguments on all ranks."),
    "E314": Explanation(
        "A step failed on all ranks, because it failed on one rank or because the ranks performed different "
        "operations.", "This step changed no table.", "All ranks must train, evaluate and skip the same batches."),
    "E320": Explanation(
        "A table is full: it has no free row on the device, host or disk for the keys of a batch, a checkpoint, "
        "files or `table.assign`.",
        "This table is unchanged. If the keys of a batch do not fit, rows may have been created and keys counted in "
        "other tables. With one rank, the batch counts as trained. Updates that do not depend on this table may have "
        "run. The session continues with the next batch.",
        "Save a checkpoint if the session has trained and is still open. Increase the argument that the message "
        "names, such as `device_vocabulary_size`, and restart the program. Alternatively, exclude rare keys with "
        "`access_threshold`, or evict old keys."),
    "E321": Explanation(
        "There is no free shared memory for new entries or rows of a table.",
        "This table is unchanged. For all other effects, see E320.",
        "Increase the memory of the machine or container (Docker: `--memory`, `--shm-size`), or make the table "
        "smaller (see `ascpipe plan`)."),
    "E322": Explanation(
        "A batch was trained or read twice, or was used after a later batch.", "This step trained nothing.",
        "Fetch and use a batch in the same `session.run`. Make `dataset.map(insert_function)` the last stage "
        "before `prefetch`, without `num_parallel_calls`."),
    "E323": Explanation(
        "A batch is larger than the maximum size of its ring.", "This step trained nothing.",
        "Use smaller batches or a larger `ring_bytes`."),
    "E324": Explanation(
        "`lookup_sparse` received invalid ids or weights. The indices of a SparseTensor are unsorted or outside "
        "the dense shape, or the indices of ids and weights differ.", "This step trained nothing.",
        "Sort a SparseTensor with `tf.sparse.reorder`. Each id needs one weight with the same index."),
    "E401": Explanation(
        "There is too little memory for rings or tables.", NOTHING,
        "Reduce `--ring-bytes` or table sizes (see `ascpipe plan`), or raise the memory limit (Docker: `--memory`, "
        "`--shm-size`)."),
    "E402": Explanation(
        "A setting has an invalid value, or its name is unknown.", NOTHING,
        "`ascpipe config show --origin` lists all settings."),
    "E403": Explanation(
        "The settings file cannot be read or is not valid TOML.", NOTHING,
        "Correct the file given by ASCPIPE_CONFIG or `--config`."),
    "E420": Explanation(
        "A directory of `ssd_data_path` is not writable or is full, or its file system is unsuitable.", NOTHING,
        "Choose a writable directory on a disk with free space."),
    "E421": Explanation(
        "A row on disk could not be read for an evaluation or a save.",
        "The evaluation or save failed. Training and earlier checkpoints are unchanged.",
        "Check the disk, then evaluate or save again. If that fails, restart the program from a checkpoint."),
    "E422": Explanation(
        "A row that a step needs could not be read from disk.", _LOST,
        "Check the disk that the message names, then restart the program from a checkpoint."),
    "E423": Explanation(
        "Rows must be written to disk to free host memory for the next batch, but no disk accepts them.", _LOST,
        "Free disk space or add directories to `ssd_data_path`, then restart the program from a checkpoint."),
    "E424": Explanation(
        "Disks did not answer for `disk_patience_s` while a step waited for rows.", _LOST,
        "Check the disk, or raise `disk_patience_s`. Then restart the program from a checkpoint."),
    "E500": Explanation(
        "A checkpoint operation failed for a reason that has no other code.", _INTACT,
        "The message has the reason."),
    "E510": Explanation(
        "A checkpoint was not saved, for example because the disk is full.",
        "Earlier checkpoints are intact, and training may continue.", "Remove the cause and save again."),
    "E511": Explanation(
        "A checkpoint was saved, but its files were not linked to the names that TensorFlow uses.",
        "The checkpoint is complete and can be restored by its name.", "Remove the cause and save again."),
    "E520": Explanation(
        "The checkpoint does not exist.", NOTHING,
        "Pass `DIR/BASE-STEP` as returned by `save()`. `ascpipe checkpoint list DIR` lists checkpoints."),
    "E521": Explanation(
        "The path of a checkpoint was refused. The path has control characters or a scheme, is a symbolic link, or is "
        "in a system directory.", NOTHING, "Use another path."),
    "E522": Explanation(
        "A checkpoint is damaged.", NOTHING, "Restore another checkpoint, or a backup of this checkpoint."),
    "E523": Explanation(
        "A checkpoint has no manifest of ascpipe, so it cannot be verified, for example a checkpoint of Rec SDK.",
        NOTHING, "If you trust the checkpoint, set `allow_unverified=True` or ASCPIPE_ALLOW_UNVERIFIED=1."),
    "E524": Explanation(
        "A checkpoint does not match the program. The dim or optimizer differs, or a table is missing.", NOTHING,
        "Restore another checkpoint, or run the program that saved this checkpoint. If only the dim differs, run "
        "the two commands of the message, which import padded or truncated rows. If the program adds a table, "
        "pass its name to `restore` in `allow_missing`. For an Estimator, use `warm_start_from` with a new "
        "`model_dir`, or set ASCPIPE_ALLOW_MISSING to the names of the tables that start empty."),
    "E525": Explanation(
        "A checkpoint was not removed, because ascpipe did not write it, deltas depend on it, or the file system "
        "refused the removal.", "The checkpoint is unchanged, unless the message says otherwise.",
        "Remove the deltas first, or remove the files yourself."),
    "E526": Explanation(
        "A checkpoint has TensorFlow's variables but no tables.", NOTHING,
        "To continue with the embeddings of the checkpoint, convert it: `ascpipe checkpoint from-tensorflow`, or "
        "`ascpipe run --columns --take-over` for feature columns. To start with empty tables, use a new `model_dir`, "
        "or pass the names of the tables to `restore` in `allow_missing`. To restore only variables, use a Saver with "
        "a `var_list`."),
    "E527": Explanation(
        "There is not enough memory for a copy of a checkpoint in addition to the live tables.",
        NOTHING + " Training continues.", "Evaluate after training has ended, or on another machine."),
    "E528": Explanation(
        "There is not enough memory to verify or read a checkpoint, which may be intact.", NOTHING,
        "Raise the memory limit (cgroup or `ulimit -v`), or use a machine with more memory."),
    "E529": Explanation(
        "The rows of a table were not exported. The directory exists or is not writable, or a value does not fit the "
        "type of the files.", NOTHING, "Pass the path of a new directory (docs/how-to/rows_in_and_out.md)."),
    "E530": Explanation(
        "Rows of files cannot be imported. A column is missing, rows have another dimension than the table, a key "
        "occurs twice, or a value is not finite.", NOTHING,
        "Correct the files, and import them again. If all rows are shorter or longer than the rows of the table, you "
        "may pass `--pad` or `--truncate` (docs/how-to/rows_in_and_out.md)."),
    "E531": Explanation(
        "A file with rows is damaged, differs from its manifest, or cannot be read.", NOTHING,
        "Copy or export the files again. If you changed the files of an export, delete its `manifest.json`."),
    "E532": Explanation(
        "An update for servers was not written: the directory cannot be written, another process writes an "
        "update, or the checkpoint has no step.", NOTHING,
        "Remove the cause, and export again (docs/how-to/serving_updates.md)."),
    "E533": Explanation(
        "A checkpoint of TensorFlow cannot be converted to tables, or tables cannot be converted to variables. "
        "For example, a variable is missing or is not float32[rows, dim], a vocabulary does not fit the variable, "
        "or the keys of a table are not row numbers.", NOTHING, "See docs/how-to/tensorflow_checkpoints.md."),
    "E534": Explanation(
        "A checkpoint of Rec SDK is incomplete: Rec SDK was interrupted before it merged the parts of several ranks.",
        NOTHING, "Restore another checkpoint."),
    "E600": Explanation(
        "An argument or call is not supported yet.", NOTHING, "The message names the alternative."),
}

EXPLANATIONS: Dict[str, Explanation] = dict(sorted({**_OTHERS, **USAGE, **DATA}.items()))
