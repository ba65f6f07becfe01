"""Signals of this process: handled by a function for a while, then by the previous handlers."""

import os
import signal
import threading

import pytest

from agent_harness.supervision.interruption import handled


def test_a_signal_reaches_the_function_in_the_block_alone() -> None:
    heard: list[int] = []
    before = signal.getsignal(signal.SIGUSR1)
    with handled([signal.SIGUSR1], lambda number, _: heard.append(number)):
        os.kill(os.getpid(), signal.SIGUSR1)
        with handled([signal.SIGUSR1], lambda number, _: heard.append(-number)):
            os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
    assert heard == [signal.SIGUSR1, -signal.SIGUSR1, signal.SIGUSR1]
    assert signal.getsignal(signal.SIGUSR1) == before


def test_an_error_in_the_block_gives_the_signals_back() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with pytest.raises(ZeroDivisionError), handled([signal.SIGUSR1], lambda *_: None):
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGUSR1) == before


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handled([signal.SIGHUP, signal.SIGUSR1], lambda *_: None):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert callable(signal.getsignal(signal.SIGUSR1))
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_than_the_main_one_handles_none() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    found: list[object] = []

    def inside() -> None:
        with handled([signal.SIGUSR1], lambda *_: None):
            found.append(signal.getsignal(signal.SIGUSR1))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert found == [before]
