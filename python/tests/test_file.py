"""Files: bytes, buffers, threads, and everything that a caller gets wrong."""

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import iopj
import numpy as np
import pytest

BLOCK = 4096


def content(data: str, offset: int, length: int) -> bytes:
    with open(data, "rb") as plain:
        plain.seek(offset)
        return plain.read(length)


ENGINES = ["io_uring", "libaio", "posix-sio", "posix-aio", "io_uring/sqpoll/interrupt"]


@pytest.mark.parametrize("io_path", ENGINES)
def test_every_path_reads_the_bytes_of_the_file(data: str, io_path: str) -> None:
    with iopj.File(data, io_path, depth=4) as file:
        base = file.data_offset
        assert file.io_path.startswith(io_path) and file.data_len == 4 << 20
        assert bytes(file.read(base, 8192)) == content(data, base, 8192)
        requests = [file.submit_read(base + at * BLOCK, BLOCK) for at in range(8)]
        for at, request in enumerate(requests):
            view = request.result(timeout_s=60)
            assert request.done() and bytes(view) == content(data, base + at * BLOCK, BLOCK)


def test_auto_chooses_and_reads(data: str) -> None:
    with iopj.Auto(data, "cpu", depth=2) as file:
        base = file.data_offset
        assert bytes(file.read(base, BLOCK)) == content(data, base, BLOCK)
        assert file.io_path == "auto:cpu" and isinstance(file.decisions(), list)
    with pytest.raises(iopj.Error, match="^policy: "):
        iopj.Auto(data, "speed")
    with pytest.raises(iopj.Error, match="none.toml cannot be read"):
        iopj.Auto(data, "none.toml")


def test_what_is_written_is_read_back(folder: Path) -> None:
    file_id = iopj.make_file(folder / "own", 1 << 20)
    with iopj.File(folder / "own", file_id=file_id, depth=2) as file:
        base, pattern = file.data_offset, bytes(range(256)) * 16
        assert file.writable and file.write(base, pattern) == BLOCK
        file.flush()
        assert bytes(file.read(base, BLOCK)) == pattern
        buffer = file.buffer()
        np.frombuffer(buffer, dtype=np.uint8)[:BLOCK] = 7
        gc.collect()
        assert file.submit_write(base + BLOCK, buffer, BLOCK, durable=True).result() == BLOCK
        assert set(file.read(base + BLOCK, BLOCK)) == {7}
    with pytest.raises(iopj.Error, match="own"):
        iopj.make_file(folder / "own", 1 << 20)
    with pytest.raises(iopj.Error):
        iopj.File(folder / "own", file_id="0" * 32)


def test_what_was_submitted_is_written_before_the_file_is_closed(folder: Path) -> None:
    """What still waited for its turn was dropped without a word."""
    path = str(folder / "waits")
    file_id = iopj.make_file(path, 1 << 20)
    with iopj.File(path, "posix-sio", file_id=file_id, depth=1, buffers=32) as file:
        base = file.data_offset
        requests = [
            file.submit_write(base + at * BLOCK, bytes([at + 1]) * BLOCK) for at in range(32)
        ]
    assert [request.result() for request in requests] == [BLOCK] * 32
    assert content(path, base, 32 * BLOCK) == b"".join(bytes([at + 1]) * BLOCK for at in range(32))


def test_a_write_is_never_longer_than_its_data(folder: Path) -> None:
    """The rest was what the buffer had held before."""
    path = str(folder / "short")
    file_id = iopj.make_file(path, 1 << 20)
    with iopj.File(path, file_id=file_id, depth=1) as file:
        with pytest.raises(ValueError, match="8192 bytes of data that has 4096"):
            file.submit_write(file.data_offset, b"x" * BLOCK, 2 * BLOCK)
        with pytest.raises(ValueError, match="-1 bytes of data"):
            file.submit_write(file.data_offset, b"x" * BLOCK, -1)


def test_a_buffer_that_is_seen_cannot_be_submitted(file: iopj.File) -> None:
    buffer = file.buffer()
    view = memoryview(buffer)
    array = np.frombuffer(buffer, dtype=np.int64)
    assert len(view) == len(buffer) == 8192 and array.shape == (1024,) and not view.readonly
    for _ in range(2):
        with pytest.raises(BufferError, match="has a view"):
            file.submit_read(file.data_offset, BLOCK, buffer)
        view.release()
    del array
    gc.collect()
    assert len(file.submit_read(file.data_offset, BLOCK, buffer).result()) == BLOCK


def queue(file: iopj.File) -> list[iopj.Request[memoryview]]:
    """Reads of 63 MiB, one after the other: what is submitted next waits behind them."""
    return [file.submit_read(file.data_offset, 1 << 20) for _ in range(63)]


def one_by_one(data: str) -> iopj.File:
    return iopj.File(data, "posix-sio", depth=1, buffers=64, buffer_size=1 << 20)


def refuses(use: Callable[[], object], request: iopj.Request[memoryview], why: str) -> bool:
    """Whether the buffer of a request is refused because it is in flight: it is, or the request has ended."""
    try:
        use()
    except BufferError as error:
        assert why in str(error)
        return True
    assert request.done(), "a buffer in flight was taken"
    return False


@pytest.mark.parametrize("why", ["in flight: it has no view", "one request at a time"])
def test_a_buffer_in_flight_has_no_view_and_takes_no_second_request(data: str, why: str) -> None:
    with one_by_one(data) as file:

        def use(buffer: iopj.Buffer) -> None:
            if "view" in why:
                memoryview(buffer).release()
            else:
                file.submit_read(file.data_offset, BLOCK, buffer).result()

        for _ in range(100):
            first, buffer = queue(file), file.buffer()
            last = file.submit_read(file.data_offset, BLOCK, buffer)
            was_refused = refuses(lambda buffer=buffer: use(buffer), last, why)
            assert len(last.result()) == BLOCK and len(first[0].result()) == 1 << 20
            del first, last, buffer
            if was_refused:
                break
        assert was_refused, "no request was still under way"


def test_buffers_come_back_when_their_views_are_dropped(file: iopj.File) -> None:
    for _ in range(100):
        file.read(file.data_offset, BLOCK)
    kept = [file.read(file.data_offset, BLOCK) for _ in range(8)]
    with pytest.raises(BufferError, match="all 8 buffers are in use"):
        file.read(file.data_offset, BLOCK)
    kept.pop()
    assert len(file.read(file.data_offset, BLOCK)) == BLOCK


def test_wrong_requests_are_refused_and_nothing_is_lost(file: iopj.File) -> None:
    base, end = file.data_offset, file.data_offset + file.data_len
    wrong = [
        ((base - BLOCK, BLOCK), "are not within the file's data"),
        ((end, BLOCK), "are not within"),
        ((end - BLOCK, 2 * BLOCK), "are not within"),
        ((2**64 - BLOCK, BLOCK), "are not within"),
        ((base, 16384), "do not fit into a buffer of 8192"),
        ((base, 0), "do not fit"),
        ((base + 1, BLOCK), "multiple|block"),
    ]
    for (offset, length), why in wrong * 3:
        with pytest.raises(ValueError, match=why):
            file.read(offset, length)
    for offset, length in ((-1, BLOCK), (base, -1), (2**64, 1)):
        with pytest.raises(OverflowError):
            file.read(offset, length)
    with pytest.raises(ValueError, match="open for reading"):
        file.write(base, b"\0" * BLOCK)
    with pytest.raises(ValueError, match="do not fit into a buffer"):
        file.write(base, b"\0" * 16384)
    assert len(file.read(base, BLOCK)) == BLOCK, "every buffer is back"


def test_a_buffer_of_another_file_is_refused(file: iopj.File, data: str) -> None:
    with iopj.File(data) as other, pytest.raises(ValueError, match="another file's"):
        file.submit_read(file.data_offset, BLOCK, other.buffer())


def test_a_closed_file_takes_nothing_and_its_views_stay(data: str) -> None:
    file = iopj.File(data, depth=4)
    view, buffer = file.read(file.data_offset, BLOCK), file.buffer()
    requests = [file.submit_read(file.data_offset, BLOCK) for _ in range(4)]
    file.close()
    file.close()
    assert file.closed and bytes(view) == content(data, file.data_offset, BLOCK)
    assert [len(request.result()) for request in requests] == [BLOCK] * 4, "they had been submitted"
    with_buffer = lambda: file.submit_read(file.data_offset, BLOCK, buffer)  # noqa: E731
    for use in (lambda: file.read(0, BLOCK), file.buffer, with_buffer):
        with pytest.raises(iopj.Error, match="the file is closed"):
            use()
    del file
    gc.collect()
    assert bytes(view)[:1] and len(memoryview(buffer)) == 131072


def test_what_cannot_be_opened_says_why(data: str, folder: Path) -> None:
    with pytest.raises(iopj.Error, match="none"):
        iopj.File(folder / "none")
    with pytest.raises(iopj.Error, match="^io_path: "):
        iopj.File(data, "uring")
    with pytest.raises(iopj.Error, match="nvme-passthrough"):
        iopj.File(data, "nvme-passthrough")
    for wrong in ({"depth": 0}, {"buffers": 0}, {"buffer_size": 0}):
        with pytest.raises(ValueError, match="give 1"):
            iopj.File(data, **wrong)
    with pytest.raises(iopj.Error, match="memory"):
        iopj.File(data, buffer_size=2**32 - 4096, buffers=2**20)


def test_requests_are_awaited(file: iopj.File, data: str) -> None:
    async def read(at: int) -> bytes:
        return bytes(await file.submit_read(file.data_offset + at * BLOCK, BLOCK))

    async def all_of_them() -> list[bytes]:
        blocks = []
        for first in range(0, 32, 8):
            blocks += await asyncio.gather(*(read(at) for at in range(first, first + 8)))
        return blocks

    assert b"".join(asyncio.run(all_of_them())) == content(data, file.data_offset, 32 * BLOCK)

    async def failing() -> None:
        await file.submit_read(file.data_offset + 512 + 1, BLOCK)

    with pytest.raises(ValueError):
        asyncio.run(failing())


def test_many_threads_use_one_file(file: iopj.File, data: str) -> None:
    whole = content(data, file.data_offset, 1 << 20)

    def check(at: int) -> bool:
        return bytes(file.read(file.data_offset + at * BLOCK, BLOCK)) == whole[at * BLOCK : (at + 1) * BLOCK]

    # Each thread has a buffer or two: the last view, and the next one.
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(check, [at % 256 for at in range(2000)]))


def test_threads_that_write_wait_for_buffers_that_will_come_back(folder: Path) -> None:
    """Between a buffer's acquisition and its request, and after its request's end, it seemed to be kept."""
    path = str(folder / "one-buffer")
    file_id = iopj.make_file(path, 1 << 20)
    with iopj.File(path, file_id=file_id, depth=1, buffers=1) as file:
        base = file.data_offset

        def write(at: int) -> int:
            return file.write(base + at % 64 * BLOCK, bytes([at % 64]) * BLOCK)

        with ThreadPoolExecutor(8) as threads:
            assert list(threads.map(write, range(512))) == [BLOCK] * 512
    assert content(path, base, 64 * BLOCK) == b"".join(bytes([at]) * BLOCK for at in range(64))


def test_others_run_while_a_thread_waits(data: str) -> None:
    """A thread has the interpreter until it waits: whatever another one counts, it counts in a wait."""
    ticks, stop = [0], threading.Event()

    def tick() -> None:
        while not stop.wait(0.0001):
            ticks[0] += 1

    thread, interval_s = threading.Thread(target=tick), sys.getswitchinterval()
    thread.start()
    sys.setswitchinterval(1000)
    try:
        with one_by_one(data) as file:
            # A wait may be too short for a tick.
            for _ in range(100):
                requests = queue(file)
                before = ticks[0]
                requests[-1].result()
                during = ticks[0] - before
                del requests
                if during > 0:
                    break
    finally:
        sys.setswitchinterval(interval_s)
        stop.set()
        thread.join()
    assert during > 0


def test_a_time_limit_is_an_error_and_the_request_goes_on(data: str) -> None:
    with one_by_one(data) as file:
        for _ in range(100):
            requests = queue(file)
            try:
                requests[-1].result(timeout_s=0)
                has_waited = False
            except TimeoutError as error:
                assert "it goes on" in str(error)
                has_waited = True
            assert len(requests[-1].result()) == 1 << 20
            with pytest.raises(ValueError, match="^timeout"):
                requests[-1].result(timeout_s=-1)
            del requests
            if has_waited:
                break
        assert has_waited, "no request was still under way"


def script(text: str, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(text), *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)


def test_a_forked_child_is_told_and_does_not_hang(data: str) -> None:
    ended = script(
        """
        import iopj, os, sys
        file = iopj.File(sys.argv[1], depth=2)
        view, buffer = file.read(file.data_offset, 4096), file.buffer()
        request = file.submit_read(file.data_offset, 4096)
        child = os.fork()
        if child == 0:
            for use in (lambda: file.read(file.data_offset, 4096), file.buffer, request.result, request.done):
                try:
                    use()
                    os._exit(1)
                except iopj.Error as error:
                    if "after a fork" not in str(error):
                        os._exit(2)
            try:
                memoryview(buffer)
                os._exit(3)
            except BufferError:
                pass
            first = view[0]
            file.close()
            # Its worker may have the number of the parent's, which must not be detached.
            own = iopj.File(sys.argv[1], depth=2)
            del file, buffer, request, view
            assert len(own.read(own.data_offset, 4096)) == 4096
            own.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(request.result()) == 4096 and len(file.read(file.data_offset, 4096)) == 4096
        print("whole")
        """,
        data,
    )
    assert (ended.returncode, ended.stdout) == (0, "whole\n"), ended.stderr


ENDINGS = {"pass": 0, "sys.exit(3)": 3, "raise ValueError('own')": 1, "os.kill(os.getpid(), 2)": -2}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interpreter_ends_with_files_open_and_requests_in_flight(data: str, ending: str) -> None:
    ended = script(
        f"""
        import iopj, os, signal, sys, threading
        # A shell that runs the tests in its background ignores SIGINT for them.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        file = iopj.File(sys.argv[1], depth=8)
        requests = [file.submit_read(file.data_offset, 4096) for _ in range(8)]
        views = [request.result() for request in requests[:4]]
        print("begun", flush=True)
        threading.Thread(target=lambda: file.submit_flush().result(), daemon=True).start()
        {ending}
        """,
        data,
    )
    assert (ended.returncode, ended.stdout) == (ENDINGS[ending], "begun\n"), ended.stderr
    assert "Fatal" not in ended.stderr and "panicked" not in ended.stderr


def test_a_signal_ends_a_wait_before_its_request_ends(data: str) -> None:
    ended = script(
        """
        import iopj, signal, sys
        class Stopped(Exception): pass
        def stop(*_): raise Stopped
        signal.signal(signal.SIGALRM, stop)
        file = iopj.File(sys.argv[1], "posix-sio", depth=1, buffers=400, buffer_size=1 << 20)
        for attempt in range(20):
            requests = [file.submit_read(file.data_offset, 1 << 20) for _ in range(400)]
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                requests[-1].result()
                signal.pause()
            except Stopped:
                if not requests[-1].done():
                    print("stopped")
                    break
        """,
        data,
    )
    assert (ended.returncode, ended.stdout) == (0, "stopped\n"), ended.stderr
