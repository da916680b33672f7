"""A daemon that ends while a trainer registers is one that is not there: a private one is then begun again."""
import os
import socket
import threading

import pytest

from ascpipe import names
from ascpipe.control import trainer_link
from ascpipe.errors import ConnectionClosedError, NotRunningError


@pytest.fixture
def listener(run_home):
    run = names.run_dir("unit")
    os.makedirs(run.path, 0o700)
    os.chmod(os.path.dirname(run.path), 0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(run.lifeline)
        made.listen(5)
        yield made
    os.unlink(run.lifeline)
    os.rmdir(run.path)


def accept_and_close(listener, *, ends):
    connection, _ = listener.accept()
    if ends:
        listener.close()
    connection.close()


@pytest.mark.parametrize("ends, error", [(True, NotRunningError), (False, ConnectionClosedError)])
def test_a_daemon_that_ends_while_a_trainer_registers_is_not_there(listener, ends, error):
    daemon = threading.Thread(target=accept_and_close, args=(listener,), kwargs={"ends": ends})
    daemon.start()
    with pytest.raises(error):
        trainer_link.connect("unit", layout=1)
    daemon.join()
