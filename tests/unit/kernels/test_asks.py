"""Looks of a compiled loop at bells, beside their twin and beside what a bell does itself."""
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascpipe.kernels import asks
from ascpipe.layout import structs
from ascpipe.layout.bells import ASLEEP, AWAKE, PAUSING
from ascpipe.shm.bell import Bell
from ascpipe.workers.listeners import Listeners
from tests.reference import asks as reference

STATES = st.lists(st.sampled_from([AWAKE, ASLEEP, PAUSING]), max_size=3)


@given(STATES, STATES)
def test_bells_are_found_waiting_as_by_the_twin_and_exactly_those_that_would_wake_their_owners(waiting, working):
    session = np.zeros(structs.SESSION_BYTES, np.uint8)
    bells = [Bell(session, index) for index in range(len(waiting) + len(working))]
    for bell, state in zip(bells, waiting + working):
        bell._fields["waiting"] = state
    listeners = Listeners(bells[:len(waiting)], bells[len(waiting):])
    twins = [reference.Listener(state, may_pause) for may_pause, states in ((0, waiting), (1, working))
             for state in states]
    assert asks.look_at_bells(listeners.looks) == reference.look_at_bells(twins)
    assert listeners.looks["waits"].tolist() == [twin.waits for twin in twins]
    listeners.ring()
    assert [int(bell._fields["futex"]) for bell in bells] == [twin.waits for twin in twins]
    assert not listeners.looks["waits"].any()
    for bell, twin, may_pause in zip(bells, twins, [False] * len(waiting) + [True] * len(working)):
        bell._fields["futex"] = 0
        (bell.ring_unless_pausing if may_pause else bell.ring)()
        assert bell._fields["futex"] == twin.waits
