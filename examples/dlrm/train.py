"""Command line of the demo.

    python -m examples.dlrm.train [--data FILE] [--steps N] [--optimizer adagrad] ...

    ascpipe run --ranks 2 examples/dlrm/train.py ...

The program prints progress lines. The last line is ``demo: ok steps=N auc=X loss=Y examples_per_s=E ids_per_s=I``. With
several ranks only the first rank prints, and the line also has ``ranks=2``.

Exit codes: 0 = done, 1 = the data or the run failed (the reason is on stderr), 2 = wrong usage, 130 = interrupted.
"""
import os
import re
import sys
import tempfile
from typing import List, Optional

from ascpipe import ranks
from ascpipe.errors import AscpipeError
from examples.dlrm import criteo, generator, options


def main(arguments: Optional[List[str]] = None) -> int:
    chosen = options.parse(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="dlrm-demo-") as folder:
            path = chosen.data
            if path is None:
                path = os.path.join(folder, "rows.tsv")
                _say("generating {} rows (seed {})".format(chosen.generate_rows, chosen.seed))
                generator.write_file(path, chosen.generate_rows, chosen.seed)
            return _train(chosen, path, criteo.split(path, folder))
    except (criteo.BadFileError, AscpipeError) as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 130


def _train(chosen: options.Options, path: str, files: criteo.Split) -> int:
    if files.training_rows < chosen.batch_size:
        raise criteo.BadFileError(path, 0, "{} rows to train, fewer than one batch of {}".format(
            files.training_rows, chosen.batch_size))

    from examples.dlrm import loop  # after the check of the file, because the import is slow
    from examples.dlrm.quiet import tf
    try:
        outcome = loop.run(chosen, files, report=_say)
    except tf.errors.InvalidArgumentError as error:
        criteo.explain(path)  # raises if a value in the file is the cause
        return _failed(_reason(error.message))
    except tf.errors.OpError as error:
        return _failed(_reason(error.message))
    if chosen.losses is not None and _is_first():
        try:
            with open(chosen.losses, "w") as out:
                out.writelines("{!r}\n".format(loss) for loss in outcome.losses)
        except OSError as error:
            return _failed("--losses {}: {}".format(chosen.losses, error.strerror))
    _say(str(outcome))
    return 0


def _is_first() -> bool:
    return not ranks.launched() or ranks.get_rank_id() == 0


def _say(line: str) -> None:
    """Print a line and flush the output. Only the first rank prints."""
    if _is_first():
        print(line, flush=True)


def _reason(message: str) -> str:
    """Return the line of an error that has a code of ascpipe. TensorFlow adds lines that describe the graph."""
    coded = re.search(r"\bE\d{3}: .*", message)
    return coded.group() if coded else message.split("\n")[0]


def _failed(reason: str) -> int:
    print("demo: error: {}".format(reason), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
