"""A batch that cannot be planned, as the trainer sees it."""
from tests.support.sim_ring import PlanError


def refusal(sim, keys):
    """(status, need) of the plan of a batch for table 0; afterwards the batch is closed, and gone."""
    batch = sim.submit(keys)
    sim.work()
    try:
        sim.claim(batch, 0)
    except PlanError as error:
        return error.status, error.need
    finally:
        sim.close(batch)
    raise AssertionError("there is a plan for {}".format(keys))
