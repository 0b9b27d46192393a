"""Files on any I/O path: iopj's engines, each on a worker thread of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from types import TracebackType
from typing import Generic, Literal, Self, TypeVar, cast

from iopj import _native
from iopj._native import Buffer

T = TypeVar("T")

#: Buffers for each request in flight, unless `buffers` says how many there are.
_BUFFERS = 2


def _wake(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


class Request(Generic[T]):
    """A request under way: wait for it by `result`, or `await` it. It goes on if nobody waits.

    `T` is `memoryview` for a read, `int` (bytes) for a write, and None for a flush.
    """

    __slots__ = ("_kind", "_native")

    def __init__(self, native: _native.Pending, kind: Literal["read", "write", "flush"]) -> None:
        self._native = native
        self._kind = kind

    def done(self) -> bool:
        """True once it has ended, well or not."""
        return self._native.done()

    def result(self, timeout_s: float | None = None) -> T:
        """Waits, without the interpreter's lock, and gives what the request gives.

        A read gives a memoryview of the bytes that were read, in the request's buffer: fewer than asked for
        if the I/O was partial. Raises OSError if the I/O failed, TimeoutError if it has not ended after
        `timeout_s` seconds, `iopj.Error` if its file was closed.
        """
        count = self._native.wait(timeout_s)
        if self._kind == "read":
            buffer = self._native.buffer
            assert buffer is not None, "a read has a buffer"
            return cast(T, memoryview(buffer)[:count])
        return cast(T, count if self._kind == "write" else None)

    def __await__(self) -> Generator[object, None, T]:
        if not self._native.done():
            loop = asyncio.get_running_loop()
            ended: asyncio.Future[None] = loop.create_future()
            descriptor = os.dup(self._native.descriptor())
            loop.add_reader(descriptor, _wake, ended)
            try:
                yield from ended
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
        return self.result(0)


class File:
    """A file, block device or NVMe namespace on one I/O path, with the buffers of one pool.

    All I/O is direct (`O_DIRECT`): offsets and lengths are multiples of `logical_block` bytes, within
    `data_offset` and `data_offset + data_len`. Any thread may use a file; its requests go to a worker thread
    that has the engine. It is closed by `close`, or at the end of a `with` block.

        with iopj.File("testfile", io_path="io_uring/syscall/interrupt", depth=8) as file:
            block = file.read(0, 4096)
            requests = [file.submit_read(offset, 4096) for offset in range(0, 32768, 4096)]
            blocks = [request.result() for request in requests]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        io_path: str = "io_uring",
        *,
        depth: int = 32,
        buffer_size: int = 131072,
        buffers: int | None = None,
        file_id: str | None = None,
    ) -> None:
        """Opens a file for reading, or with `file_id`, a file that `make_file` made for writing, too.

        `io_path` is a path such as `io_uring/sqpoll/poll`, or an interface, which stands for its interrupts.
        `depth` is the most requests in flight. `buffers` buffers of `buffer_size` bytes each are mapped, two
        for each request in flight if it is not given. Raises `iopj.Error` if the path does not work here.
        """
        self._native = _native.Engine(
            path,
            io_path=io_path,
            depth=depth,
            buffer_size=buffer_size,
            buffers=_BUFFERS * depth if buffers is None else buffers,
            file_id=file_id,
        )

    def read(self, offset: int, length: int) -> memoryview:
        """Reads `length` bytes at byte `offset`, and waits without the interpreter's lock.

        The memoryview is of a buffer of the pool, without a copy: drop it, or copy it by `bytes`, before all
        buffers are kept so. It stays valid when the file is closed. It is shorter than `length` after a
        partial I/O. Raises OSError if the I/O fails, ValueError for bytes that are not the file's,
        BufferError if you keep all buffers.
        """
        return self.submit_read(offset, length).result()

    def write(self, offset: int, data: bytes | bytearray | memoryview | Buffer) -> int:
        """Writes `data` at byte `offset`, and waits; the number of bytes that were written.

        The bytes are copied into a buffer of the pool, unless `data` is one. Raises as `read` does.
        """
        return self.submit_write(offset, data).result()

    def flush(self) -> None:
        """Makes everything durable whose request had ended, as fdatasync(2) does."""
        self.submit_flush().result()

    def submit_read(self, offset: int, length: int, buffer: Buffer | None = None) -> Request[memoryview]:
        """Begins to read, and does not wait. Without a `buffer` one of the pool is taken.

        Raises BufferError if a memoryview or an array of `buffer` is alive, or it is in flight.
        """
        if buffer is None:
            return Request(self._native.read(offset, length), "read")
        return Request(self._native.submit("read", buffer, offset, length), "read")

    def submit_write(
        self,
        offset: int,
        data: bytes | bytearray | memoryview | Buffer,
        length: int | None = None,
        *,
        durable: bool = False,
    ) -> Request[int]:
        """Begins to write the first `length` bytes of `data`, all without it, and does not wait.

        A `durable` write has reached the medium when it ends (`RWF_DSYNC`).
        """
        source = data if isinstance(data, Buffer) else memoryview(data).cast("B")
        length = len(source) if length is None else length
        if not 0 <= length <= len(source):
            raise ValueError(f"length: {length} bytes of data that has {len(source)}")
        op = "write_dsync" if durable else "write"
        if isinstance(source, Buffer):
            return Request(self._native.submit(op, source, offset, length), "write")
        return Request(self._native.write(op, source[:length], offset), "write")

    def submit_flush(self) -> Request[None]:
        """Begins to flush, and does not wait."""
        return Request(self._native.flush(), "flush")

    def buffer(self) -> Buffer:
        """Takes a buffer of the pool, to be filled or read into; back in the pool once it is dropped.

        `memoryview(buffer)` and `numpy.frombuffer(buffer, dtype)` are views of its bytes. While one of them
        is alive the buffer takes no request, and while it is in flight it has no view: both are a
        BufferError. Waits if all buffers are in flight; raises BufferError if you keep them all. A forked
        child shares the memory of views with its parent.
        """
        return self._native.acquire()

    def close(self) -> None:
        """Ends the file: waits for what is in flight, at most five seconds. Later requests are an error."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<iopj.{type(self).__name__} on {self.io_path}, {self.data_len} bytes{state}>"

    @property
    def closed(self) -> bool:
        """True once it takes no requests."""
        return self._native.closed

    @property
    def io_path(self) -> str:
        """The whole name of its path."""
        return self._native.io_path

    @property
    def data_offset(self) -> int:
        """The first byte that I/O may touch: 0, or after the header of a file that iopj made."""
        return self._native.data_offset

    @property
    def data_len(self) -> int:
        """Bytes from there on."""
        return self._native.data_len

    @property
    def logical_block(self) -> int:
        """Bytes of which offsets and lengths are multiples."""
        return self._native.logical_block

    @property
    def writable(self) -> bool:
        """True if it may be written to."""
        return self._native.writable

    @property
    def depth(self) -> int:
        """The most requests in flight; further ones wait for their turn."""
        return self._native.depth

    @property
    def buffer_size(self) -> int:
        """Bytes of a buffer, the most that one request moves."""
        return self._native.buffer_size


class Auto(File):
    """A file whose engine chooses the I/O path of each request, by a policy and by what it sees."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        policy: str = "latency",
        *,
        depth: int = 32,
        buffer_size: int = 131072,
        buffers: int | None = None,
        file_id: str | None = None,
    ) -> None:
        """Opens a file as `File` does.

        `policy` is an aim, such as `latency` or `cpu`, or the name of a policy file with a `/` or a `.` in
        it, as `iopj policy derive` writes it.
        """
        self._native = _native.Engine(
            path,
            policy=policy,
            depth=depth,
            buffer_size=buffer_size,
            buffers=_BUFFERS * depth if buffers is None else buffers,
            file_id=file_id,
        )

    def decisions(self) -> list[str]:
        """What was decided since the last call, a line each and the oldest first; the last 1,000."""
        return self._native.decisions()


def make_file(path: str | os.PathLike[str], size: int) -> str:
    """Makes a file of `size` random bytes after a header, which `File` and `Auto` may write to.

    Returns its identity, the `file_id` that opens it for writing. Raises `iopj.Error` if something has its
    name.
    """
    return _native.make_file(path, size)
