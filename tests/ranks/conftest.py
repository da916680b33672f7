"""How the ranks of a test are started, where a test asks for ``launcher``, and what they may leave."""
import pytest

from ascpipe.daemon.run_directory import sweep_dead_runs
from tests.support import ranked_daemons, several_ranks


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


@pytest.fixture(scope="session", autouse=True)
def _daemons_are_shared():
    """Runs without settings have the daemons of other runs; ``test_run_ranks.py`` and others have private ones."""
    with ranked_daemons.shared():
        yield


@pytest.fixture
def swept():
    """What a killed daemon leaves is removed by the next one that begins on its machine."""
    yield
    sweep_dead_runs("")
