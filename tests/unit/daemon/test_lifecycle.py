"""Decisions of a daemon, one event at a time; time is a number."""
import itertools
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascpipe.daemon import lifecycle
from ascpipe.daemon.events import (
    AttachWorkers,
    ClearClaim,
    CloseSession,
    EndWorkers,
    Event,
    Exit,
    FailSession,
    LauncherGone,
    SendStream,
    SendTable,
    SessionStarted,
    StartWorker,
    StopRequested,
    StreamAdded,
    TableAdded,
    Tick,
    TrainerGone,
    TrainerRegistered,
    WorkerEnded,
)
from ascpipe.daemon.lifecycle import BACKOFF_S, PRIVATE_PATIENCE_S, RESTARTS, WINDOW_S, Lifecycle
from ascpipe.daemon.worker_identity import KEY, TABLE, Worker
from ascpipe.errors import CrashLoopError, DaemonStoppedError, KeyWorkerDiedError, TableWorkerDiedError, received

K0, K1, T0 = Worker(KEY, 0), Worker(KEY, 1), Worker(TABLE, 0)


def started(private=False, workers=(K0, K1, T0)):
    life = Lifecycle(workers, private, 0.0)
    assert len(life.handle(Tick(), 0.0)) == len(workers)
    return life


def serving(**options):
    life = started(**options)
    life.handle(TrainerRegistered(), 0.0)
    assert life.handle(SessionStarted(), 0.0) == [AttachWorkers()]
    return life


def killed(worker, generation, number=signal.SIGKILL, **options):
    return WorkerEnded(worker, 100 + generation, generation, number, "killed by {}".format(number), **options)


def test_all_workers_start_idle_each_with_its_own_generation():
    life = Lifecycle((K0, K1, T0), False, 5.0)
    assert life.handle(Tick(), 5.0) == [StartWorker(K0, 1, False), StartWorker(K1, 2, False), StartWorker(T0, 3, False)]
    assert life.handle(Tick(), 6.0) == []


def test_a_killed_key_worker_gives_its_claims_back_and_is_replaced_at_once():
    life = serving()
    assert life.handle(killed(K1, 2), 1.0) == [ClearClaim(2)]
    assert life.next_look() == 1.0
    assert life.handle(Tick(), 1.0) == [StartWorker(K1, 4, True)]
    assert life.state == lifecycle.SERVING
    assert (life.restarts(K1), life.restarts(K0)) == (1, 0)


def test_a_killed_table_worker_is_replaced_and_told_so_and_what_it_had_published_is_rung_for():
    life = serving()
    assert life.handle(killed(T0, 3), 1.0) == [ClearClaim(3)]
    assert life.handle(Tick(), 1.0) == [StartWorker(T0, 4, True)]


def test_streams_and_tables_that_were_added_go_to_the_workers_while_there_is_a_session():
    life = serving()
    assert life.handle(TableAdded(2), 1.0) == [SendTable(2)]
    assert life.handle(StreamAdded(7), 1.0) == [SendStream(7)]
    life.handle(killed(T0, 3, signal.SIGABRT), 1.0)
    assert life.handle(StreamAdded(8), 2.0) == life.handle(TableAdded(3), 2.0) == []


def test_restarts_wait_longer_and_longer_and_then_end():
    life, now, generation, delays = serving(workers=(K0,)), 1.0, 1, []
    for _ in range(RESTARTS):
        assert life.handle(killed(K0, generation), now) == [ClearClaim(generation)]
        delays.append(life.next_look() - now)
        now = life.next_look()
        (start,) = life.handle(Tick(), now)
        generation = start.generation
    assert [round(delay, 6) for delay in delays] == list(BACKOFF_S) + [BACKOFF_S[-1]] * (RESTARTS - len(BACKOFF_S))
    fail, end = life.handle(killed(K0, generation), now)
    assert isinstance(fail.error, CrashLoopError)
    assert "restarted 5 times in 60 s" in str(fail.error) and "pid 106" in str(fail.error)
    assert (end, life.state) == (EndWorkers(), lifecycle.FAILED)


def test_restarts_long_ago_are_forgiven():
    life, now, generation = serving(workers=(K0,)), 0.0, 1
    for _ in range(3 * RESTARTS):
        now += WINDOW_S / (RESTARTS - 1)
        assert life.handle(killed(K0, generation), now) == [ClearClaim(generation)]
        now = life.next_look()
        generation = life.handle(Tick(), now)[0].generation


def test_any_other_death_fails_the_session_and_says_whose_it_was():
    for worker, generation, kind in ((K0, 1, KeyWorkerDiedError), (T0, 3, TableWorkerDiedError)):
        life = serving()
        fail, end = life.handle(killed(worker, generation, signal.SIGSEGV), 1.0)
        assert isinstance(fail.error, kind)
        assert "{} worker 0 (pid {})".format(worker.kind, 100 + generation) in str(fail.error)
        assert (end, life.error) == (EndWorkers(), fail.error)


def test_what_a_worker_said_of_its_end_is_what_the_trainer_reads():
    report = received("E122", "slot 7 has two keys")
    fail, _ = serving().handle(killed(T0, 3, 0, report=report), 1.0)
    assert fail == FailSession(report)


def test_an_idle_worker_that_cannot_run_is_not_tried_for_ever_and_fails_the_next_start():
    life = started()
    assert life.handle(killed(K0, 1, 0), 0.5) == []
    assert life.next_look() is None
    life.handle(TrainerRegistered(), 1.0)
    fail, _ = life.handle(SessionStarted(), 1.0)
    assert isinstance(fail.error, KeyWorkerDiedError)
    life.handle(TrainerGone(), 2.0)
    life.handle(TrainerRegistered(), 3.0)
    assert life.handle(SessionStarted(), 3.0) == [AttachWorkers()]  # its workers are new


def test_a_named_daemon_serves_the_next_trainer_with_fresh_workers():
    life = serving()
    assert life.handle(TrainerGone(), 9.0) == [EndWorkers(), CloseSession()]
    assert life.state == lifecycle.IDLE
    assert [action.generation for action in life.handle(Tick(), 9.0)] == [4, 5, 6]
    assert not any(action.restart for action in life.handle(Tick(), 9.0))
    life.handle(TrainerRegistered(), 10.0)
    assert life.handle(SessionStarted(), 10.0) == [AttachWorkers()]


def test_the_end_of_a_session_has_its_failure_and_its_restarts():
    life = serving()
    for number, generation in enumerate((1, 4, 5, 6, 7, 8)):
        actions = life.handle(killed(K0, generation), 3.0 * number)
        life.handle(Tick(), 3.0 * number + 2.5)
    error = actions[0].error
    assert life.sessions_failed == 1
    close = life.handle(TrainerGone(), 19.0)[-1]
    assert close == CloseSession(error, False, ((K0, RESTARTS),)) and isinstance(error, CrashLoopError)
    assert (life.error, life.restarts(K0), life.sessions_failed) == (None, 0, 1)


def test_the_end_of_a_session_says_if_the_trainer_died():
    for private in (False, True):
        life = serving(private=private)
        assert CloseSession(None, True) in life.handle(TrainerGone(died=True), 9.0)
        assert life.sessions_failed == 1
    life = started()
    life.handle(TrainerRegistered(), 1.0)
    life.handle(TrainerGone(died=True), 2.0)  # it had no session yet
    assert life.sessions_failed == 1


def test_a_session_that_failed_counts_once_and_one_that_ended_does_not():
    life = serving()
    life.handle(killed(T0, 3, signal.SIGABRT), 1.0)
    life.handle(TrainerGone(died=True), 2.0)
    assert life.sessions_failed == 1
    life.handle(TrainerRegistered(), 3.0)
    life.handle(TrainerGone(), 4.0)
    assert life.sessions_failed == 1


def test_a_trainer_that_never_started_leaves_the_workers_as_they_are():
    life = started()
    life.handle(TrainerRegistered(), 1.0)
    assert life.handle(TrainerGone(), 2.0) == []
    assert (life.state, life.next_look()) == (lifecycle.IDLE, None)


def test_a_private_daemon_ends_with_its_trainer():
    for life in (started(private=True), serving(private=True)):
        life.handle(TrainerRegistered(), 1.0)
        assert life.handle(TrainerGone(), 2.0) == [EndWorkers(), CloseSession(), Exit()]


def test_a_private_daemon_does_not_wait_for_ever_for_its_trainer():
    life = started(private=True)
    assert life.next_look() == PRIVATE_PATIENCE_S
    assert life.handle(Tick(), PRIVATE_PATIENCE_S - 0.1) == []
    assert Exit() in life.handle(Tick(), PRIVATE_PATIENCE_S)


def test_a_private_daemon_leaves_when_its_launcher_ends_before_it_registers_and_others_do_not():
    assert started(private=True).handle(LauncherGone(), 1.0) == [EndWorkers(), CloseSession(), Exit()]
    assert started().handle(LauncherGone(), 1.0) == serving(private=True).handle(LauncherGone(), 1.0) == []


def test_a_stop_tells_a_trainer_that_is_served():
    fail, *rest = serving().handle(StopRequested("SIGTERM"), 1.0)
    assert isinstance(fail.error, DaemonStoppedError) and "SIGTERM" in str(fail.error)
    assert rest == [EndWorkers(), CloseSession(fail.error), Exit()]
    assert started().handle(StopRequested("x"), 1.0) == [EndWorkers(), CloseSession(), Exit()]


def test_deaths_of_workers_that_we_ended_ourselves_mean_nothing():
    life = serving()
    life.handle(TrainerGone(), 1.0)
    assert life.handle(killed(K0, 1), 1.0) == []
    assert (life.restarts(K0), life.next_look()) == (0, 1.0)
    life = serving()
    life.handle(killed(T0, 3, signal.SIGABRT), 1.0)
    assert life.handle(killed(K0, 1), 1.0) == []
    assert life.next_look() is None


EVENTS = st.sampled_from(["register", "start", "gone", "tick", "kill", "crash"])


@given(st.lists(st.tuples(EVENTS, st.integers(0, 2), st.floats(0, 40)), max_size=60), st.booleans())
def test_whatever_happens_no_generation_runs_twice_and_every_claim_is_cleared(events, private):
    life, now, running, generations = Lifecycle((K0, K1, T0), private, 0.0), 0.0, {}, itertools.count(1)
    for name, which, pause in events:
        now += pause
        worker = (K0, K1, T0)[which]
        if life.state != {"register": lifecycle.IDLE, "start": lifecycle.REGISTERED}.get(name, life.state):
            continue  # the loop refuses these verbs
        event = {"register": TrainerRegistered(), "start": SessionStarted(), "gone": TrainerGone()}.get(name, Tick())
        if name in ("kill", "crash"):
            if worker not in running:
                continue
            event = killed(worker, running.pop(worker), signal.SIGKILL if name == "kill" else signal.SIGBUS)
        was_serving = life.state == lifecycle.SERVING
        actions = life.handle(event, now)
        if name == "kill" and worker.kind == KEY and was_serving and life.state == lifecycle.SERVING:
            assert ClearClaim(event.generation) in actions
        for action in actions:
            if isinstance(action, StartWorker):
                assert action.worker not in running
                assert action.generation == next(generations)
                running[action.worker] = action.generation
            elif isinstance(action, EndWorkers):
                running.clear()
        if life.state in (lifecycle.FAILED, lifecycle.STOPPED):
            assert not running


def test_each_kind_of_event_has_its_decision_and_anything_else_is_refused():
    life = Lifecycle((K0,), False, 0.0)
    assert set(life._decisions) == set(Event.__args__)
    for _ in range(2):
        with pytest.raises(KeyError):
            life.handle(EndWorkers(), 0.0)
        life.handle(StopRequested("x"), 0.0)
