"""Evaluations in a simulated ring read the rows of the last finished step, and change no table."""
import pytest

from ascpipe.layout.words import ANSWERED, ASKED
from tests.support.pipeline_sim import Sim


def test_an_evaluation_sees_trained_keys_only_and_allocates_nothing():
    sim = Sim([8])
    sim.train([1, 2])
    ahead = sim.submit([3])
    sim.work()
    assert sim.evaluate([2, 3, 9, 2]) == [{2: 1, 3: -1, 9: -1}]
    assert sim.trained_state(0) == {1: (1, 0), 2: (1, 1)}
    assert sim.claim(ahead, 0)
    sim.close(ahead)
    sim.work()
    assert sim.trained_state(0) == {1: (1, 0), 2: (1, 1), 3: (1, 2)}


def test_an_evaluation_waits_until_the_last_step_is_retired():
    sim = Sim([8])
    batch = sim.submit([1])
    sim.work()
    assert sim.claim(batch, 0)  # DONE, not retired
    question = sim.ask([1])
    assert sim.eval_stages[0].act() is False
    assert sim.eval_pump.word(question.number, 0) == ASKED
    sim.close(batch)
    sim.work()
    assert sim.eval_pump.word(question.number, 0) == ANSWERED
    part = sim.eval_pump.ring.part(question.number, 0)
    assert part.array("slots", 1).tolist() == [0]


def test_an_evaluation_waits_for_a_step_that_ends_while_the_worker_looks(monkeypatch):
    sim, questions = Sim([8]), []
    batch = sim.submit([1])
    sim.work()

    def then_train_and_ask(look):
        def looked(column):
            seen = look(column)
            if not questions:
                assert sim.claim(batch, 0)  # DONE, not retired
                questions.append(sim.ask([1]))
            return seen
        return looked

    for ring in (sim.ring, sim.eval_pump.ring):
        monkeypatch.setattr(ring, "look", then_train_and_ask(ring.look))
    assert not sim.eval_stages[0].act()
    monkeypatch.undo()
    sim.close(batch)
    sim.work()
    assert sim.eval_pump.ring.part(questions[0].number, 0).array("slots", 1).tolist() == [0]


@pytest.mark.parametrize("asked", [False, True])
def test_a_dropped_evaluation_frame_is_reused_after_its_acknowledgement(asked):
    sim = Sim([8], frames=1)
    question = sim.ask([1]) if asked else sim.eval_pump.submit([1])
    while sim.eval_keys.step():
        pass
    sim.close_eval(question)
    assert sim.eval_pump.submit([2]) is None
    sim.work()
    assert sim.evaluate([5]) == [{5: -1}]
