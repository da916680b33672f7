"""How the ranks of a test are started, where a test asks for ``launcher``, and what they may leave."""
import pytest

from ascpipe.daemon.run_directory import sweep_dead_runs
from tests.support import several_ranks


@pytest.fixture(scope="module", params=["gloo", pytest.param("mpi", marks=pytest.mark.long)])
def launcher(request):
    """By horovodrun, where ranks talk by gloo, and by mpirun: an argument of ``several_ranks.by``."""
    lacking = several_ranks.lacking_for_mpi() if request.param == "mpi" else None
    if lacking is not None:
        pytest.skip(lacking)
    return request.param


@pytest.fixture(scope="module", autouse=True)
def _programs_are_forked(forked_programs):
    """Runs of one rank and ``horovodrun`` are, by ``ranked_runs``."""


@pytest.fixture
def swept():
    """What a killed daemon leaves is removed by the next one that begins on its machine."""
    yield
    sweep_dead_runs("")
