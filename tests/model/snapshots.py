"""Separate model of snapshots: a table's entries are copied while a worker changes them.

One table has a few entries of two halves each.  Batches are trained one after the other, and each changes some entries.
A worker assigns their records and may be killed between any two stores.  The trainer copies the entries half by half.
There may be a reset.  The log has room for a number of images.  ``Sizes`` has all numbers.

In a *hold*, as in the protocol, no batch is trained, and no trained batch is left to be assigned.  A thread that
requests a reset holds the lease until the reset is applied, which excludes holds and steps.
"""

from typing import Dict, FrozenSet, Iterator, NamedTuple, Optional, Tuple

from tests.model.explore import quick

from .explore import Move, System, Violation
from .state import replaced

FLAWS: Dict[str, str] = {
    "change_before_images": "entries are changed before their images are published",
    "published_before_images": "images are published before they are written",
    "copied_before_copy": "an entry counts as copied before it is",
    "log_read_early": "how many images there are is read before the last entry is copied",
    "restart_without_marks": "a new worker does not look at what is in the log",
    "marks_of_the_last": "what is marked for a snapshot counts for the next one",
    "log_is_kept": "the log of a snapshot begins with what the last one left there",
    "full_log_ignored": "without room in the log entries are changed all the same",
    "reset_does_not_wait": "a reset is committed while entries are copied",
    "begun_before_reset": "a snapshot begins although a reset is asked for",
}

HALVES = 2

Content = Tuple[int, ...]  # of an entry: the number of the record that stored each half; 0: a reset
Image = Tuple[int, Content]


@quick
class Sizes(NamedTuple):
    """Sizes of a model.

    Attributes:
        entries: entries of the table.
        records: the entries that each batch changes.
        room: maximum number of images in the log.
        snapshots, kills, resets: number of these events.
    """

    entries: int = 2
    records: Tuple[Tuple[int, ...], ...] = ((0, 1), (0,))
    room: int = 2
    snapshots: int = 1
    kills: int = 1
    resets: int = 0


USUAL = Sizes()


@quick
class Worker(NamedTuple):
    """Private memory of the worker, lost when it dies.

    Attributes:
        doing: remaining moves of the current action.
        marked: entries that need no image in the snapshot ``marked_for``.
        awaits_end: the log had no room, and the worker waits for the end of the snapshot.
    """

    doing: Tuple[Tuple[str, int, int], ...] = ()
    marked: FrozenSet[int] = frozenset()
    marked_for: int = 0
    awaits_end: bool = False


@quick
class Copy(NamedTuple):
    """A snapshot of the trainer, and its expected content.

    Attributes:
        true: the entries when the snapshot began; known to the oracle only.
        halves: copied halves so far.
        logged: number of images that replace copied entries; None: not read yet.
    """

    true: Tuple[Content, ...]
    halves: Content = ()
    logged: Optional[int] = None


@quick
class State(NamedTuple):
    """Shared memory, worker, trainer.  ``log`` has the length ``room``; ``bound`` is the number of entries to copy."""

    entries: Tuple[Content, ...]
    log: Tuple[Optional[Image], ...]
    asked: int = 0
    bound: int = 0
    copied: int = 0
    logged: int = 0
    trained: int = 0  #: trained batches
    retired: int = 0  #: retired batches
    reset_asked: int = 0
    reset_committed: int = 0
    reset_applied: int = 0
    worker: Optional[Worker] = Worker()  #: None: dead
    copy: Optional[Copy] = None
    kills: int = 0


class Snapshots(System[State]):
    """The model with one flaw of FLAWS, or "" for none."""

    def __init__(self, sizes: Sizes = USUAL, flaw: str = "") -> None:
        self.sizes, self.flaw = sizes, flaw

    def start(self) -> State:
        return State(entries=((0,) * HALVES,) * self.sizes.entries, log=(None,) * self.sizes.room)

    def may_stop(self, state: State) -> bool:
        return (state.retired == len(self.sizes.records) and state.reset_applied == self.sizes.resets
                and state.asked == self.sizes.snapshots and state.copy is None)

    def moves(self, state: State) -> Iterator[Move]:
        yield from self._trains(state)
        yield from self._copies(state)
        if state.worker is None:
            yield Move("worker: starts", lambda: state._replace(worker=Worker()), ())
        else:
            yield from self._works(state, state.worker)
            if state.kills < self.sizes.kills:
                yield Move("worker: SIGKILL", lambda: state._replace(worker=None, kills=state.kills + 1), (), True)

    # ---- trainer

    def _trains(self, state: State) -> Iterator[Move]:
        if state.reset_asked > state.reset_applied:
            return  # the requesting thread holds the lease
        if state.trained < len(self.sizes.records) and state.trained - state.retired < 2:
            yield Move("trains %d" % (state.trained + 1), lambda: state._replace(trained=state.trained + 1), ())
        if state.reset_asked < self.sizes.resets:
            yield Move("asks for a reset", lambda: state._replace(reset_asked=state.reset_asked + 1), ())

    def _copies(self, state: State) -> Iterator[Move]:
        if state.copy is None:
            no_cut = state.reset_asked == state.reset_applied or self.flaw == "begun_before_reset"
            if state.asked < self.sizes.snapshots and state.trained == state.retired and no_cut:
                yield Move("snapshot begins, inside a hold", self._begun, (state,))
            return
        at = len(state.copy.halves)
        if at < HALVES * state.bound and at < HALVES * (state.copied + 1):
            yield Move("copies half %d of entry %d" % (at % HALVES, at // HALVES), self._copied, (state, state.copy))
        must_be_done = HALVES * (state.copied + (self.flaw != "copied_before_copy"))
        if state.copied < state.bound and at >= must_be_done and not self._looks_early(state):
            after = state._replace(copied=state.copied + 1)
            yield Move("says that entry %d is copied" % state.copied, lambda: after, ())
        all_is_said = state.copied == state.bound and at == HALVES * state.bound
        if state.copy.logged is None and (all_is_said or self._looks_early(state)):
            after = state._replace(copy=state.copy._replace(logged=state.logged))
            yield Move("sees %d images" % state.logged, lambda: after, ())
        elif state.copy.logged is not None and all_is_said:
            yield Move("lays the images over its copy", self._finished, (state, state.copy))

    def _looks_early(self, state: State) -> bool:
        """Return True before the last half is copied, but only once."""
        return (self.flaw == "log_read_early" and state.copy is not None and state.copy.logged is None
                and len(state.copy.halves) == HALVES * state.bound - 1)

    def _begun(self, state: State) -> State:
        logged = state.logged if self.flaw == "log_is_kept" else 0
        return state._replace(asked=state.asked + 1, bound=self.sizes.entries, copied=0, logged=logged,
                              copy=Copy(state.entries))

    @staticmethod
    def _copied(state: State, copy: Copy) -> State:
        at = len(copy.halves)
        half = state.entries[at // HALVES][at % HALVES]
        return state._replace(copy=copy._replace(halves=copy.halves + (half,)))

    @staticmethod
    def _finished(state: State, copy: Copy) -> State:
        made = [copy.halves[i:i + HALVES] for i in range(0, len(copy.halves), HALVES)]
        for image in state.log[:copy.logged]:
            if image is None:
                raise Violation("an image was published and never written")
            made[image[0]] = image[1]
        if tuple(made) != copy.true:
            raise Violation("the snapshot has %s, it began with %s" % (made, list(copy.true)))
        return state._replace(copy=None)

    # ---- worker

    def _works(self, state: State, worker: Worker) -> Iterator[Move]:
        if worker.doing:
            (kind, entry, half), left = worker.doing[0], worker.doing[1:]
            yield Move("worker: " + _LABELS[kind] % {"entry": entry, "half": half}, self._store,
                       (state, worker._replace(doing=left), kind, entry, half))
        elif state.retired < state.trained:
            if not (worker.awaits_end and state.copied < state.bound):
                yield Move("worker: looks at record %d" % (state.retired + 1), self._looked, (state, worker))
        elif state.reset_applied < state.reset_asked:
            waits = state.copied < state.bound and self.flaw != "reset_does_not_wait"
            if state.reset_committed == state.reset_asked or not waits:
                yield Move("worker: commits the reset", self._commits, (state, worker))

    def _looked(self, state: State, worker: Worker) -> State:
        """Decide the stores for the oldest record that is not assigned; ``copied`` is read once."""
        record = self.sizes.records[state.retired]
        worker = worker._replace(awaits_end=False)
        need: Tuple[int, ...] = ()
        if state.copied < state.bound:
            if worker.marked_for != state.asked and not (self.flaw == "marks_of_the_last" and worker.marked_for):
                logged = frozenset(image[0] for image in state.log[:state.logged] if image is not None)
                marked = frozenset() if self.flaw == "restart_without_marks" else logged
                worker = worker._replace(marked=marked, marked_for=state.asked)
            need = tuple(entry for entry in record if entry >= state.copied and entry not in worker.marked)
            if state.logged + len(need) > self.sizes.room:
                if self.flaw != "full_log_ignored":
                    return state._replace(worker=worker._replace(awaits_end=True))
                need = ()
        images = tuple(("image", entry, state.logged + index) for index, entry in enumerate(need))
        published = (("publish", state.logged + len(need), 0),) if need else ()
        assigned = tuple(("assign", entry, half) for entry in record for half in range(HALVES))
        order = {"change_before_images": assigned[:1] + images + published + assigned[1:],
                 "published_before_images": published + images + assigned}
        doing = order.get(self.flaw, images + published + assigned) + (("retire", 0, 0),)
        return state._replace(worker=worker._replace(doing=doing, marked=worker.marked | frozenset(need)))

    def _commits(self, state: State, worker: Worker) -> State:
        resets = tuple(("reset", entry, half) for entry in range(self.sizes.entries) for half in range(HALVES))
        worker = worker._replace(doing=resets + (("apply", 0, 0),))
        return state._replace(reset_committed=state.reset_asked, worker=worker)

    @staticmethod
    def _store(state: State, worker: Worker, kind: str, entry: int, at: int) -> State:
        state = state._replace(worker=worker)
        if kind == "image":
            return state._replace(log=replaced(state.log, at, (entry, state.entries[entry])))
        if kind == "publish":
            return state._replace(logged=entry)
        if kind == "retire":
            return state._replace(retired=state.retired + 1)
        if kind == "apply":
            return state._replace(reset_applied=state.reset_asked)
        value = state.retired + 1 if kind == "assign" else 0
        return state._replace(entries=replaced(state.entries, entry, replaced(state.entries[entry], at, value)))


_LABELS = {
    "image": "writes the image of entry %(entry)d", "publish": "publishes %(entry)d images",
    "assign": "assigns half %(half)d of entry %(entry)d", "retire": "stores RETIRED",
    "reset": "resets half %(half)d of entry %(entry)d", "apply": "stores APPLIED",
}

#: sizes with which the model must hold
SHORT: Dict[str, Sizes] = {
    "two batches, killed twice": Sizes(kills=2),
    "three entries, room for one image": Sizes(3, ((0, 2), (1, 2)), room=1),
    "two snapshots": Sizes(records=((1,), (0, 1), (0,)), snapshots=2, kills=1),
    "a reset": Sizes(records=((1,),), resets=1),
    "two snapshots, a reset, a full log": Sizes(records=((0, 1), (1,)), room=1, snapshots=2, resets=1),
}
#: sizes that show each flaw
FLAWED: Dict[str, Sizes] = {
    "restart_without_marks": Sizes(records=((0, 1),)),
    "marks_of_the_last": Sizes(records=((1,), (1,)), snapshots=2, kills=0),
    "log_is_kept": Sizes(records=((1,), (1,)), snapshots=2, kills=0),
    "full_log_ignored": Sizes(room=1, kills=0),
    "reset_does_not_wait": Sizes(records=((1,),), resets=1, kills=0),
    "begun_before_reset": Sizes(records=((1,),), resets=1, kills=0),
}
