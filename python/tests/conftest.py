"""Stores that the program makes here, once for all tests."""

import contextlib
import fcntl
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import iopj
import pytest

PATHS = ["posix-sio/syscall/interrupt", "libaio/syscall/interrupt", "io_uring/syscall/interrupt"]
DEPTHS = [1, 4]
REPLICATES = 2


#: Places of what is held by whatever measures on this machine, the tests in Rust among them: one run at a
#: time uses a disk.
LOCKS = [Path(folder, "iopj-tests.lock") for folder in ("/run/lock", tempfile.gettempdir())]


def lock_file() -> IO[str]:
    """The first that is there or can be made, as the tests in Rust find it."""
    # One of another user may be read, and not made (`fs.protected_regular`).
    for place, mode in itertools.product(LOCKS, ("r", "a")):
        with contextlib.suppress(OSError):
            return place.open(mode)
    pytest.fail("there is no place for the tests' lock")


@pytest.fixture(scope="session", autouse=True)
def alone() -> Iterator[None]:
    """Holds the machine, once for all tests: others hold it for minutes."""
    with lock_file() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On the disk of the tests: direct I/O may not work in /tmp."""
    return tmp_path_factory.mktemp("iopj")


@pytest.fixture(scope="session")
def data(folder: Path) -> str:
    """A file of 4 MiB that iopj made."""
    file = str(folder / "data")
    iopj.make_file(file, 4 << 20)
    return file


@pytest.fixture(scope="session")
def store(folder: Path, data: str) -> iopj.Store:
    """Two paths at two depths, and one that has a single depth, in two replicates."""
    return iopj.run(
        target=data,
        store=str(folder / "one.iopj"),
        progress=False,
        wait="10m",
        path=PATHS,
        rw="randread",
        bs="4k",
        iodepth=DEPTHS,
        numjobs=1,
        runtime="100ms",
        ramp_time="20ms",
        replicates=REPLICATES,
        meters="none",
    )


@pytest.fixture
def file(data: str) -> Iterator[iopj.File]:
    """Four requests in flight, eight buffers of 8 KiB."""
    with iopj.File(data, depth=4, buffer_size=8192) as opened:
        yield opened
