"""What each error code means, what became of the data, and what to do: the one source of these texts.

``ascpipe explain`` prints them, and ``docs/reference/errors.md`` is made of them:

    ascpipe explain --markdown > docs/reference/errors.md
"""
from typing import Dict, NamedTuple


class Explanation(NamedTuple):
    """Of one code; each a sentence or more.

    Attributes:
        what: happened.
        data: what became of tables, batches, checkpoints.
        cure: what to do.
    """

    what: str
    data: str
    cure: str


_NOTHING = "Nothing was started or changed."
_LOST = "What was trained since the last checkpoint is lost; checkpoints are as they were."
_RESTART = "Restart the program: it goes on from its last checkpoint."
_LOGS = ("The worker's log has more: the error names the folder, `ascpipe logs --worker` prints it, and "
         "`ascpipe logs --failed` lists those of private daemons.")
_INTACT = "Tables and other checkpoints are as they were."

EXPLANATIONS: Dict[str, Explanation] = {
    "E110": Explanation(
        "The daemon process died while a trainer used it: it was killed, or the machine had no memory left.",
        "No batch was half-applied. " + _LOST,
        _RESTART + " `ascpipe logs --failed` has the log of a private daemon, `ascpipe logs --name` that of "
        "a named one; "
        "the kernel's log tells of memory that ran out."),
    "E112": Explanation(
        "Something between a trainer or the command line and a daemon that has no code of its own.",
        "The text says what was and was not done; a session that serves goes on.",
        "Read the text, then the daemon's log (`ascpipe logs`)."),
    "E113": Explanation(
        "The daemon was told to stop while it served a trainer: by `ascpipe stop`, or by a signal.",
        "No batch was half-applied. " + _LOST,
        "Start a daemon, then the program: it goes on from its last checkpoint."),
    "E120": Explanation(
        "A worker process ended, and could not simply be replaced.", _LOST, _RESTART + " " + _LOGS),
    "E122": Explanation(
        "A table worker ended by something else than SIGKILL: an exception or a signal such as SIGSEGV. It may have "
        "written to the tables before, so they are not used any more.",
        "The step that was under way was not applied. " + _LOST, _RESTART + " " + _LOGS),
    "E123": Explanation(
        "A step waited for its batch for longer than `wait_timeout_s`. The text says for which process or other step.",
        "Nothing was lost: the step was not run, and the session goes on.",
        "`ascpipe status` shows what each process waits for, `ascpipe stats` what is slow. Run the step "
        "again, or raise "
        "`wait_timeout_s`. Two threads that train on two streams can wait for each other: train from one thread."),
    "E130": Explanation(
        "A key worker ended by something else than SIGKILL.",
        "No batch was half-applied. " + _LOST, _RESTART + " " + _LOGS),
    "E132": Explanation(
        "The disk worker ended by something else than SIGKILL.",
        "Rows on disk are lost with it. " + _LOST, _RESTART + " " + _LOGS),
    "E140": Explanation(
        "A worker was killed again and again, and is not replaced any more. Mostly memory ran out: the text says so "
        "where the kernel tells.",
        "No batch was half-applied. " + _LOST,
        "Raise the limit of the control group (container, `MemoryMax=`), or make tables and rings smaller, "
        "then restart "
        "the program from its last checkpoint."),
    "E199": Explanation(
        "The daemon answered with a code that this version of ascpipe does not know: it is of a later version.",
        "The text says what was done.", "Install one version for both, then start the daemon again."),
    "E204": Explanation(
        "A process that was forked from the trainer ran an op of its pipeline.",
        "The trainer's session is as it was.",
        "Run the op in the trainer, or start the child with multiprocessing's `spawn`."),
    "E205": Explanation(
        "A session ran a lookup, and the pipeline of its graph was not started, was ended, or was started only after "
        "the first run of this session.",
        "Nothing was run. Tables and checkpoints are as they were.",
        "Call `ascpipe.tf.start()` after the graph is built and before the first `session.run()`; with names of Rec "
        "SDK `start_asc_pipeline()`, or `modify_graph_and_start_emb_cache()` if lookups take tensors. An Estimator "
        "takes `ascpipe.tf.StartHook()` as a hook."),
    "E210": Explanation(
        "The daemon serves another trainer; one at a time.", "The session of the other trainer is as it was.",
        "Wait for it to end, start another daemon with `--name`, or unset ASCPIPE_NAME for a private one."),
    "E211": Explanation(
        "A daemon of that name runs already.", "It was not disturbed.",
        "End it with `ascpipe stop --name`, or choose another `--name`. `ascpipe list` shows what runs."),
    "E212": Explanation(
        "No daemon of that name runs, or several run and none was named.", _NOTHING,
        "`ascpipe list` shows what runs. Start one with `ascpipe start`, name another, or unset ASCPIPE_NAME. Programs "
        "must have the XDG_RUNTIME_DIR that the daemon has."),
    "E213": Explanation(
        "A daemon, or a worker, did not get ready.", _NOTHING,
        "The text has the reason, or the log that has it. `ascpipe doctor` looks at what a daemon needs."),
    "E214": Explanation(
        "A run directory that is not ours alone (0700), or a folder of compiled kernels that others could change, or "
        "one that cannot be used. What lies there would be trusted.", _NOTHING,
        "Mend owner and mode, or take another place: `export XDG_RUNTIME_DIR=$(mktemp -d)` in every shell "
        "that uses the "
        "daemon; for compiled kernels ASCPIPE_CACHE_DIR."),
    "E215": Explanation(
        "A name that no daemon can have: 1 to 48 of the characters A-Z a-z 0-9 _ . - are allowed, the first no dot or "
        "dash.", _NOTHING, "Another `--name` or ASCPIPE_NAME."),
    "E216": Explanation(
        "The path of a socket is longer than the 107 bytes that the kernel allows.", _NOTHING,
        "A shorter `--name` or XDG_RUNTIME_DIR."),
    "E217": Explanation(
        "The daemon refused a process that is not its trainer, or is another user's.", "The session is as it was.",
        "One trainer at a time, of the same user, and only it changes or ends its session; `ascpipe stop` ends the "
        "daemon."),
    "E218": Explanation(
        "The daemon lives and did not answer in time: a signal has stopped it, the machine is overloaded, or it is of "
        "an earlier version that does not understand the question.", "The session is as it was.",
        "`kill -CONT` continues one that is stopped; `kill` ends one of an earlier version. `ascpipe list` "
        "has the pid, "
        "or `owner.json` in its run directory."),
    "E219": Explanation(
        "A request at the wrong time, such as a second start.", "The session is as it was.",
        "The text says what comes before it."),
    "E220": Explanation(
        "Trainer and daemon are of different versions: their layouts of shared memory differ.", _NOTHING,
        "Install one version, restart the daemon."),
    "E221": Explanation(
        "The TensorFlow ops are not built.", _NOTHING,
        "`make build` in the tree of ascpipe, or install a wheel, which has them. `ascpipe doctor` shows it."),
    "E222": Explanation(
        "The TensorFlow ops are built for another TensorFlow, C++ ABI, version or layout.", _NOTHING,
        "`make build` in the tree of ascpipe, or install what the wheel was built for. `ascpipe doctor` shows both "
        "sides."),
    "E223": Explanation(
        "A run directory, or the one of compiled kernels, has no room for bytes or files.",
        "Nothing was started; a session that serves goes on.",
        "Make room, or take another place (XDG_RUNTIME_DIR, ASCPIPE_CACHE_DIR). `ascpipe clean` removes what dead "
        "daemons and other versions have left."),
    "E224": Explanation(
        "Metrics were asked for and cannot be exported: the port is taken by another program or daemon, or the file "
        "cannot be made.", _NOTHING,
        "Choose another `metrics_port` or `metrics_file`, or leave the setting out."),
    "E225": Explanation(
        "Metrics were asked for, and the package that they need is not installed.", _NOTHING,
        "`pip install \"ascpipe[metrics]\"`, or leave the setting out."),
    "E226": Explanation(
        "The ops cannot be compiled from an installed package: it has the finished library, and no C++ sources.",
        _NOTHING, "Build a wheel in the source tree, with the TensorFlow that it is for (docs/how-to/install.md)."),
    "E227": Explanation(
        "Two packages named mx_rec are installed: that of ascpipe-mx-rec and another product's.",
        "Nothing was run; no file of the other was changed.",
        "Keep one: `pip uninstall ascpipe-mx-rec`, or remove the other, or give each an environment of its own "
        "(docs/how-to/install.md)."),
    "E230": Explanation(
        "A control message that is not in the schema; it was dropped.", "The session is as it was.",
        "The other end is of another version; its log says which."),
    "E231": Explanation(
        "The other end of a control socket is gone.", "The text of the error that follows says it.",
        "Look at the log of the other end (`ascpipe logs`)."),
    "E232": Explanation(
        "No whole control message came in time.", "The session is as it was.",
        "The other end is stopped or too slow; `ascpipe logs` may tell."),
    "E240": Explanation(
        "Ranks cannot be started, or cannot join.", _NOTHING, "The text names the rank and says why."),
    "E241": Explanation(
        "Several ranks need Horovod, which cannot be imported.", _NOTHING,
        "`make ranks` in the tree of ascpipe, or `pip install --no-build-isolation \"ascpipe[ranks]\"`."),
    "E242": Explanation(
        "Horovod is of another version than the one that ascpipe works with.", _NOTHING,
        "`make ranks` in the tree of ascpipe, or `pip install --no-build-isolation \"ascpipe[ranks]\"`."),
    "E243": Explanation(
        "Horovod and the launcher do not say the same of this process's rank.", _NOTHING,
        "Call `hvd.init()` without arguments, and start all ranks by one launcher."),
    "E250": Explanation(
        "Ids, weights or arguments of `lookup_sparse` cannot be combined: they are no bags, have another rank, shape "
        "or dtype, or the combiner is unknown.", "Nothing was added to the graph.",
        "The text says what was given and what to give."),
    "E251": Explanation(
        "A feature column has a table, or shall have one, and the program does with it what only a variable can do: "
        "an optimizer that has no form for tables, a checkpoint to load rows from, more buckets than a size is known "
        "for.", "Nothing was trained.", "The text says what to give instead."),
    "E252": Explanation(
        "A table is looked up for training and the loss depends on its rows, but no optimizer of the graph updates it. "
        "A table is not among `tf.trainable_variables()`, so an optimizer of TensorFlow does not find it.",
        "Nothing was trained.",
        "Train it by an optimizer of `ascpipe.tf.optimizers`. Where the program passes a list of variables, add "
        "`ascpipe.tf.table_variables()` to it. To keep the rows as they are, look the table up with `trainable=False` "
        "(docs/how-to/tables_and_variables.md)."),
    "E253": Explanation(
        "A program uses a table as if it were a TensorFlow variable: it passes a dense gradient of a table, keeps a "
        "gradient or row numbers over steps, reads or assigns the whole variable that holds the rows of a step, "
        "converts a graph to constants, or runs a graph of `import_meta_graph`.",
        "Nothing was trained.",
        "The text names the op and what to write instead (docs/how-to/tables_and_variables.md)."),
    "E301": Explanation(
        "A plan, an entry or a row number in shared memory cannot be right: a process wrote where it should not have.",
        "Nothing of the batch was trained or saved. " + _LOST, _RESTART),
    "E302": Explanation(
        "Shared memory is not what it should be; it was not mapped.", _NOTHING,
        "Trainer and daemon are of different versions: install one, restart the daemon."),
    "E310": Explanation(
        "Other ranks did not come to an exchange in time.",
        "The exchange that was given up updated no table (one of gradients is E311), and the rank takes part in no "
        "further one. " + _LOST,
        "A rank is stopped, late, or does something else: its output says what. Then restart all ranks."),
    "E311": Explanation(
        "A step failed on some ranks when others had updated their tables.",
        "The ranks differ, so nothing can be trained or saved any more. " + _LOST,
        "The text has the cause of each rank; restart all ranks from the last checkpoint."),
    "E312": Explanation(
        "The exchange with other ranks has ended, as a rank ended or was killed.", _LOST,
        "The launcher says which rank; restart all ranks from the last checkpoint."),
    "E313": Explanation(
        "Ranks differ in their versions, tables, optimizers, thresholds, or collectives of the program.",
        "Nothing was trained by the step that found it. " + _LOST,
        "The text names the item, the ranks and their values. Run the same program with the same arguments on all "
        "ranks."),
    "E314": Explanation(
        "A step failed on all ranks, because it failed on one of them or because the ranks did different things.",
        "No table was changed by this step.",
        "The text says what each rank did, or why its step failed. All ranks train, evaluate and skip the same "
        "batches."),
    "E320": Explanation(
        "A table is full: it has no row on the device, on the host or on disk for keys of a batch.",
        "The batch was not trained by this table; nothing was lost.",
        "The text names the size to raise, `device_vocabulary_size`, `host_vocabulary_size` or `ssd_vocabulary_size`, "
        "and by how much. Or keep rare keys out: a higher `access_threshold`, or eviction."),
    "E321": Explanation(
        "The machine has no shared memory left for entries or rows of a table, which takes them as keys come.",
        "The batch was not trained by this table; nothing was lost.",
        "More memory for the machine or container (Docker: `--memory`, `--shm-size`), or a smaller table; `ascpipe "
        "plan` counts what one needs."),
    "E322": Explanation(
        "A batch was trained or read twice, or came to the step after a later one.",
        "This step trained nothing; nothing was lost.",
        "One run call fetches a batch and uses it, and one plan of each table is in it. Let "
        "`dataset.map(insert_function)` be sequential (no `num_parallel_calls`) and the last stage before `prefetch`."),
    "E323": Explanation(
        "A batch is larger than its ring may be.", "It was not trained; nothing was lost.",
        "The text says what it needs: smaller batches, or a larger `ring_bytes`."),
    "E324": Explanation(
        "The bags of ids of `lookup_sparse` and their weights do not fit together: rows are not in order or beyond the "
        "dense shape, or weights are more, fewer or elsewhere.", "The step trained nothing; nothing was lost.",
        "The text says where. `tf.sparse.reorder` sorts a SparseTensor; weights have the indices of the ids."),
    "E401": Explanation(
        "Too little memory for rings or tables, found out before any was taken.", _NOTHING,
        "The text has need and limits: smaller `--ring-bytes` or tables (`ascpipe plan` counts them), or a "
        "larger limit "
        "(Docker: `--memory`, `--shm-size`)."),
    "E402": Explanation(
        "A setting has a value that is refused, or there is no setting of that name.", _NOTHING,
        "The text names the setting, its value and where it came from; `ascpipe config show` lists all."),
    "E403": Explanation(
        "The file with settings cannot be read, or is not TOML.", _NOTHING,
        "Mend the file that ASCPIPE_CONFIG or `--config` names."),
    "E420": Explanation(
        "A directory of `ssd_data_path` cannot have rows: it cannot be written to, has no room, or is on a file system "
        "that is not fit.", _NOTHING, "Choose a directory on a disk that may be written to."),
    "E421": Explanation(
        "A row on disk cannot be read for an evaluation or a save.",
        "Training and earlier checkpoints are as they were; the save or evaluation failed.",
        "Look after that disk, then restart the program from a checkpoint."),
    "E422": Explanation(
        "A row that a step needs cannot be read from disk.", "The step was not run. " + _LOST,
        "Look after the disk that the text names, then restart the program from a checkpoint."),
    "E423": Explanation(
        "Rows must go to disk to make room for the next batch, and none can be written.", _LOST,
        "Make room there, or name other directories in `ssd_data_path`, then restart the program from a checkpoint."),
    "E424": Explanation(
        "Disks with rows did not answer for `disk_patience_s` while a step waited.", "The step was not run. " + _LOST,
        "Look after that disk, or raise `disk_patience_s` if it is that slow, then restart from a checkpoint."),
    "E500": Explanation(
        "Something with a checkpoint that has no code of its own.", _INTACT, "The text says what."),
    "E510": Explanation(
        "A checkpoint was not saved; the text has the bytes written and needed.",
        "Earlier checkpoints are as they were, and training may go on.", "Mend the cause, save again."),
    "E511": Explanation(
        "A checkpoint was saved, but TensorFlow's names for it were not made.",
        "It is complete and can be restored by its name.", "Mend the cause, save again."),
    "E520": Explanation(
        "There is no such checkpoint.", "Nothing was changed.",
        "Give `DIR/BASE-STEP` as `save()` returned it; `ascpipe checkpoint list DIR` shows what is there."),
    "E521": Explanation(
        "A path of a checkpoint is refused: control characters, a scheme, a link, a directory of the system.",
        "Nothing was read or written.", "Another path."),
    "E522": Explanation(
        "A checkpoint is not what was saved; the text names the file.",
        "Nothing of it was used, and nothing was changed.", "Restore another checkpoint, or get this one from a copy."),
    "E523": Explanation(
        "A checkpoint has no manifest of ascpipe, so it cannot be verified; Rec SDK's have none.",
        "Nothing was changed.",
        "If you trust it: `allow_unverified=True`, or ASCPIPE_ALLOW_UNVERIFIED=1."),
    "E524": Explanation(
        "A checkpoint does not fit: another dim, another optimizer, a table that is not in it. The text names what "
        "differs.", "Nothing was changed.",
        "Restore another checkpoint, or run the program that saved this one. A program that "
        "adds a table names it in `allow_missing` of `restore`. An Estimator takes another `model_dir` and begins from "
        "this checkpoint by `warm_start_from`, or ASCPIPE_ALLOW_MISSING names what begins empty."),
    "E525": Explanation(
        "A checkpoint was not removed: it is not ours, others stand upon it, or the disk refused.",
        "It is as it was, unless the text says otherwise.", "Remove deltas before what they stand upon, or remove it "
        "yourself."),
    "E526": Explanation(
        "A checkpoint has TensorFlow's variables and no tables.", "Nothing was changed.",
        "Take one that was saved with the tables. An Estimator takes another `model_dir`: tables cannot take "
        "embeddings that were trained as variables. If all tables shall begin empty, name them in `allow_missing` of "
        "`restore`. To restore some variables alone, take a Saver with a `var_list` of them."),
    "E527": Explanation(
        "No memory for a copy of a checkpoint beside the live tables.", "Nothing was changed; training goes on.",
        "Evaluate after training has ended, or on another machine."),
    "E528": Explanation(
        "There is too little memory to verify or read a checkpoint: to find a key that occurs twice, all keys of a "
        "table are read at once. The checkpoint may be whole.", "Nothing was changed.",
        "Raise the limit (of the control group, or `ulimit -v`), or read it on a machine with more memory."),
    "E600": Explanation(
        "An argument or a call asks for something that ascpipe cannot do yet.", "Nothing was ignored or changed.",
        "The text names it, and says what to do instead."),
}
