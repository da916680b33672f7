"""The thread of saves waits in bounded steps, and says what it waits for."""
import logging
import threading

import pytest

from ascpipe.tf.running import late_lines, save_thread
from ascpipe.tf.running.save_thread import SaveThread
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def impatient(monkeypatch, caplog):
    monkeypatch.setattr(save_thread, "_LOG_INTERVAL_S", 0.01)
    monkeypatch.setattr(late_lines, "FIRST_S", 0.01)
    caplog.set_level(logging.DEBUG, save_thread.__name__)


def test_an_idle_thread_says_what_it_waits_for_and_saves_again(caplog):
    thread, saved = SaveThread(), []
    thread.begin("a/model-1", lambda: saved.append(1))
    thread.wait()
    wait_until(lambda: "the last save was a/model-1" in caplog.text)
    thread.begin("a/model-2", lambda: saved.append(2))
    thread.close()
    assert saved == [1, 2]


def test_a_close_says_which_save_it_waits_for(caplog):
    thread, go_on = SaveThread(), threading.Event()
    thread.begin("a/model-1", lambda: go_on.wait(30))
    closing = threading.Thread(target=thread.close)
    closing.start()
    wait_until(lambda: "waiting for the background save of a/model-1" in caplog.text)
    go_on.set()
    closing.join(30)
    assert not closing.is_alive()


def test_a_close_says_that_the_thread_does_not_end(caplog, monkeypatch):
    thread, go_on = SaveThread(), threading.Event()
    monkeypatch.setattr(thread, "_next", lambda: go_on.wait(30) and None)
    thread.begin("a/model-1", lambda: None)
    thread._is_over.set()
    closing = threading.Thread(target=thread.close)
    closing.start()
    wait_until(lambda: "waiting for the end of the save thread" in caplog.text)
    go_on.set()
    closing.join(30)
    assert not closing.is_alive()
