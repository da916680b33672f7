"""``ascpipe.tf``, ``mx_rec`` and feature columns train the same programs, and refuse the same programs.

Each program is built through the three APIs as their users write it. Either all three train, with the rows and weights
of TensorFlow; or all three raise a coded error that names the table, before the first update. `EXCEPTIONS` lists where
they differ, the reason, and the sentence of the documents that says so.
"""
import collections
import logging
import pathlib
import random
from typing import Any, Callable, Counter, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import pytest

from ascpipe.errors import AscpipeError
from tests.support.covering import pairwise
from tests.tf import front_doors
from tests.tf.front_door_changes import (
    CHANGING,
    CLIPPING,
    LINEAR,
    NOT_LINEAR,
    OF_TRAINABLE,
    REFUSED,
    WAYS,
    WITHOUT_FROZEN,
)
from tests.tf.front_doors import APIS, Program

pytestmark = [pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices"),
              pytest.mark.filterwarnings("ignore:distutils Version classes")]
DOCS = pathlib.Path(__file__).resolve().parent.parent.parent / "docs"
ASC, MX_REC, COLUMNS = APIS
_log = logging.getLogger(__name__)


# ---- where the APIs differ

class Wanted(NamedTuple):
    """What one API makes of a program.

    Attributes:
        refused: whether it raises an error; None: whatever the others do.
        form: of the gradient in the program of TensorFlow.
        program: whose rows and weights it has, in TensorFlow.
        has_code: whether its errors are coded.
    """

    refused: Optional[bool]
    form: str
    program: Program
    has_code: bool = True


class Difference(NamedTuple):
    """Why an API does something else than the others.

    Attributes:
        applies: whether a program is such a one.
        changed: the API, what it does by itself -> what it does.
        stated: page of the documents, and words of it.
    """

    applies: Callable[[Program], bool]
    changed: Callable[[str, Wanted], Wanted]
    stated: Sequence[str]


def of(api: str, change: Callable[[Wanted], Wanted]) -> Callable[[str, Wanted], Wanted]:
    return lambda name, wanted: change(wanted) if name == api else wanted


def refuses(wanted: Wanted) -> Wanted:
    return wanted._replace(refused=True)


def trains(wanted: Wanted) -> Wanted:
    return wanted._replace(refused=False)


def only_columns_train(api: str, wanted: Wanted) -> Wanted:
    return trains(wanted) if api == COLUMNS else refuses(wanted)


def moves_all_rows(program: Program) -> bool:
    """Whether all APIs refuse the optimizer."""
    return program.kind in ("nadam", "adamw") and not program.frozen


def is_linear(program: Program) -> bool:
    return program.way not in CLIPPING and not set(program.changes) & set(NOT_LINEAR)


PAGE = "how-to/tables_and_variables.md"
EXCEPTIONS: Dict[str, Difference] = {
    "the gradient of a column or a bag has a row for each distinct id, as in TensorFlow": Difference(
        lambda program: not is_linear(program),
        lambda api, wanted: wanted._replace(form="distinct")
        if api == COLUMNS or api == ASC and wanted.program.pooling == "bags" else wanted,
        (PAGE, "With `lookup_sparse` and feature columns, an op on the gradient receives a row for each distinct id of "
               "a lookup, as in TensorFlow.")),
    "ops on gradients read the sum of each key in mx_rec, as in Rec SDK": Difference(
        lambda program: not is_linear(program), of(MX_REC, lambda wanted: wanted._replace(form="sums")),
        (PAGE, "one sum per key instead: - There are several ranks. A warning is logged for each table. - The program "
               "uses `mx_rec`, which behaves like Rec SDK.")),
    "only tables of columns are represented in tf.trainable_variables()": Difference(
        lambda program: program.way in OF_TRAINABLE and not program.frozen and not moves_all_rows(program),
        only_columns_train,
        (PAGE, "contains the variables of columns, so their tables are trained")),
    "a moving average of a column's variable averages nothing, with a warning": Difference(
        lambda program: program.way == "with_moving_averages" and not moves_all_rows(program), only_columns_train,
        ("how-to/feature_columns.md", "`tf.train.ExponentialMovingAverage` averages no rows.")),
    "the variable of a column has no rows that a program can gather": Difference(
        lambda program: "decayed" in program.changes, of(COLUMNS, refuses),
        (PAGE, "the variable of a column has no rows")),
    "Adam trains tables as LazyAdam, with a warning": Difference(
        lambda program: program.kind == "adam",
        lambda api, wanted: wanted._replace(program=wanted.program._replace(kind="lazy_adam")),
        (PAGE, "by `LazyAdam`, which updates only the rows of a batch; a warning is logged")),
    "the norm of all trainable variables leaves tables out": Difference(
        lambda program: program.penalty == "l2 of variables", lambda api, wanted: wanted,
        (PAGE, "A sum or norm over `tf.trainable_variables()` does not include rows of tables.")),
    "mx_rec.optimizers.adagrad begins with the accumulator of Rec SDK": Difference(
        lambda program: program.kind == "adagrad" and program.owner == "own",
        of(MX_REC, lambda wanted: wanted._replace(program=wanted.program._replace(kind="adagrad with 0.9"))),
        (PAGE, "| initial accumulator of Adagrad | 0.1 | 0.9 | 0.1 |")),
    "mx_rec refuses a table that is only looked up with is_grad=False, with the error of Rec SDK": Difference(
        lambda program: program.frozen == "trainable",
        of(MX_REC, lambda wanted: wanted._replace(refused=True, has_code=False)),
        (PAGE, "`is_grad=False` raises RuntimeError")),
    "a key without a row gives zeros in evaluation lookups of mx_rec, as in Rec SDK": Difference(
        lambda program: program.frozen == "evaluation",
        of(MX_REC, lambda wanted: wanted._replace(program=wanted.program._replace(frozen="zeros"))),
        (PAGE, "| a key without a row, in evaluation | its initial row | zeros | its initial row |")),
}


def wanted_of(program: Program) -> Dict[str, Wanted]:
    """What each API makes of a program."""
    # What TensorFlow computes does not depend on these.
    reference = program._replace(tier="device", given="tensors", owner="own", name="user",
                                 frozen="stop_gradient" if program.frozen else "")
    found = {}
    for api in APIS:
        found[api] = Wanted(None, "occurrences", reference)
        for difference in EXCEPTIONS.values():
            if difference.applies(program):
                found[api] = difference.changed(api, found[api])
    return found


# ---- the rule

def check(program: Program) -> str:
    """Require that the APIs agree on a program; "trained", "refused", or "both" where an exception says so."""
    wanted = wanted_of(program)
    found = {api: front_doors.run(api, program) for api in APIS}
    refused = {api: outcome.error is not None for api, outcome in found.items()}
    free = {api for api in APIS if wanted[api].refused is None}
    errors = {api: repr(outcome.error)[:300] for api, outcome in found.items() if outcome.error is not None}
    assert len({refused[api] for api in free}) <= 1, "some refuse it, and others train: {}".format(errors)
    for api in APIS:
        if api not in free:
            assert refused[api] == wanted[api].refused, "{}: {}".format(api, errors.get(api, "trained"))
        if refused[api]:
            require_refusal(api, program, found[api], has_code=wanted[api].has_code)
        else:
            require_same(api, found[api].numbers, front_doors.plain(wanted[api].form, wanted[api].program).numbers)
    return "refused" if all(refused.values()) else "both" if any(refused.values()) else "trained"


def require_refusal(api: str, program: Program, outcome: front_doors.Outcome, *, has_code: bool) -> None:
    text = str(outcome.error)
    if has_code:
        assert isinstance(outcome.error, AscpipeError), "{}: {!r}".format(api, outcome.error)
        assert outcome.error.code in ("E251", "E252", "E253"), text
    named = program.name + "/" if api == COLUMNS else repr(program.name.replace(".", ""))
    assert named in text, "{}: {}".format(api, text)
    assert outcome.steps == 0, "{} refused it after {} steps: {}".format(api, outcome.steps, text)


def require_same(api: str, found: Any, expected: Any) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg="{} of {}".format(name, api))


def checked(programs: Sequence[Program]) -> Counter[str]:
    """How many programs were trained, refused, and of each exception."""
    found: Counter[str] = collections.Counter()
    for program in programs:
        try:
            found[check(program)] += 1
        except Exception as error:
            raise AssertionError("{}: {}".format(program, error)) from error
        found.update(name for name, difference in EXCEPTIONS.items() if difference.applies(program))
    return found


# ---- programs

FACTORS: Dict[str, List[Any]] = {
    "way": [*WAYS], "owner": ["own", "tensorflow", "ascpipe"],
    "kind": ["gradient_descent", "adagrad", "ftrl", "lazy_adam", *front_doors.OF_TENSORFLOW_ALONE],
    "tier": [*front_doors.SIZES], "lookups": [1, 2], "pooling": ["sum", "mean", "sqrtn", "bags"],
    "given": ["tensors", "features"], "frozen": ["", "trainable", "evaluation", "stop_gradient"],
    "penalty": ["", "l2 of rows", "regularizer", "l2 of variables"], "name": ["user", "User_2", "a.b"],
    "changes": [(), *[(name,) for name in [*LINEAR, *NOT_LINEAR, *REFUSED]]]}


def allowed(row: Dict[str, Any]) -> bool:
    """Whether TensorFlow can run a program; also asked of rows that lack factors."""
    way, changes, frozen = row.get("way"), row.get("changes"), row.get("frozen")
    if changes and (way not in (None, *CHANGING) or frozen):
        return False
    if frozen and (way in WITHOUT_FROZEN or row.get("kind") == "adamw"):
        return False  # AdamW decays variables before or after the loss reads them, as threads have it
    return row.get("owner") in (None, "tensorflow") or row.get("kind") not in front_doors.OF_TENSORFLOW_ALONE


def drawn(count: int, seed: int) -> List[Program]:
    """Random programs, of which most are not frozen and change gradients up to three times."""
    choose = random.Random(seed)
    found: List[Program] = []
    while len(found) < count:
        row = {name: choose.choice(values) for name, values in FACTORS.items()}
        changes = choose.choices([*LINEAR, *NOT_LINEAR, *REFUSED], k=choose.choice([0, 0, 1, 1, 2, 3]))
        row.update(changes=tuple(changes), frozen=choose.choice(["", "", row["frozen"]]))
        if changes:
            row.update(way=choose.choice(CHANGING), frozen="")
        if allowed(row):
            found.append(Program(**row))
    return found


#: Each kind of change, way, optimizer and other part of programs is in one of them; random programs have the others.
SAMPLE = {
    "all three train": [
        Program("in_two_calls", ("scaled", "gated", "without_nan"), "ascpipe", "adagrad", "host", name="a.b"),
        Program("by_gradients", ("by_norm", "by_global_norm"), kind="lazy_adam", lookups=2, tier="host"),
        Program("by_two_optimizers", ("clipped",), "tensorflow", "momentum", pooling="mean", penalty="l2 of rows"),
        Program("minimize", owner="ascpipe", kind="ftrl", penalty="l2 of variables", given="features"),
        Program("by_optimize_loss_with_clips", pooling="bags"),
        Program("by_slim_of_both", owner="tensorflow", kind="adam", pooling="sqrtn", name="User_2"),
        Program("in_a_conditional", kind="adagrad", tier="host", penalty="regularizer"),
        Program("of_dense_variables", frozen="stop_gradient"),
        Program("without_updates", frozen="evaluation"),
    ],
    "all three refuse": [
        *(Program("in_two_calls", (change,)) for change in ("weight_decay", "accumulated", "without_id_0")),
        Program("minimize", owner="tensorflow", kind="nadam"), Program("of_dense_variables", name="a.b"),
        Program("of_dense_variables_by_hand"), Program("by_keras"),
    ],
    "some refuse for a reason": [
        Program("by_slim_alone"), Program("by_trainable_variables", owner="tensorflow"),
        Program("with_moving_averages"), Program("in_two_calls", ("decayed",)), Program("minimize", frozen="trainable"),
    ]}


@pytest.mark.parametrize("outcome, programs", SAMPLE.items(), ids=[*SAMPLE])
def test_programs_train_through_all_apis_or_none(outcome, programs):
    found = checked(programs)
    kind = {"all three train": "trained", "all three refuse": "refused"}.get(outcome, "both")
    assert found[kind] == len(programs), found


def test_the_sample_has_each_small_part_and_each_difference():
    programs = [program for some in SAMPLE.values() for program in some]
    for name in ("owner", "tier", "lookups", "pooling", "given", "frozen", "penalty", "name"):
        assert {getattr(program, name) for program in programs} == set(FACTORS[name]), name
    assert all(any(difference.applies(program) for program in programs) for difference in EXCEPTIONS.values())


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_each_difference_is_stated_in_the_documents(name):
    page, words = EXCEPTIONS[name].stated
    assert words in " ".join((DOCS / page).read_text().split())


@pytest.mark.long
@pytest.mark.timeout_s(600)
@pytest.mark.parametrize("part", range(10))
def test_each_pair_of_parts_of_programs_trains_through_all_apis_or_none(part):
    found = checked([Program(**row) for row in pairwise(FACTORS, allowed)][part::10])
    _log.info("figures: %s", dict(found))


@pytest.mark.long
@pytest.mark.timeout_s(600)
@pytest.mark.parametrize("seed", range(10))
def test_random_programs_train_through_all_apis_or_none(seed):
    found = checked(drawn(50, seed))
    _log.info("figures: %s", dict(found))
    assert found["trained"] and found["refused"]
