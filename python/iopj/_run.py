"""Runs of the program that is in the package: a file of its own, not linked in."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import signal
import subprocess
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from iopj._progress import Progress, shown
from iopj._store import Store
from iopj._values import listed

#: What ends with these was not begun or not completed.
_FAILED_TRIALS = 1

#: A value of an option of `iopj run`; NumPy's scalars are numbers, and its arrays sequences.
Value = str | int | float | os.PathLike[str] | np.generic
Option = Value | bool | Sequence[Value] | npt.NDArray[np.generic] | None


class ProgramError(RuntimeError):
    """The program ended with an error; the text is its message."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        #: 2 for usage or set-up, 130 if it was interrupted; negative for a signal that killed it.
        self.exit_code = exit_code


class FailedTrials(UserWarning):
    """The study ran, and some of its trials failed; the store says which and why."""


def program() -> str:
    """The program that `run` starts: that of this package, or without one (a package that was built from
    source) that on the PATH. Raises FileNotFoundError without any."""
    try:
        files = importlib.metadata.files("iopj") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "iopj" and file.parent.name == "bin":
            path = Path(str(file.locate())).resolve()
            if path.is_file():
                return str(path)
    found = shutil.which("iopj")
    if found is None:
        raise FileNotFoundError(
            "the program iopj is not in this package, which was built from source, nor on the PATH: install "
            "a wheel, or the program"
        )
    return found


def run(
    study: str | os.PathLike[str] | None = None,
    *,
    target: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **options: Option,
) -> Store:
    """Runs a study by the program, and opens the store that it wrote.

    `study` is a study file; without it, it is the quick study. `target` is a file or a device; without it, a
    file is made and removed. Every other keyword is an option of `iopj run`: `runtime="1s"` is `--runtime
    1s`, `iodepth=[1, 8]` is `--iodepth 1,8`, `allow_exec=True` is `--allow-exec`.

    `progress` shows a bar in a notebook, and lines on standard error elsewhere. Raises `ProgramError` with
    the program's message if the study did not run; warns of `FailedTrials`. An interrupt (Ctrl-C, or "stop"
    in a notebook) ends the run after restoring what it changed.
    """
    words = [program(), "run"]
    words += [] if study is None else [os.fspath(study)]
    named: dict[str, Option] = {
        "target": None if target is None else os.fspath(target),
        "store": None if store is None else os.fspath(store),
        **options,
    }
    for name, value in named.items():
        words += _option(name, value)
    with shown(progress) as progress_shown:
        output, code, notes = _follow(words, progress_shown)
    return _opened(output, code, notes)


def _option(name: str, value: Option) -> list[str]:
    option, values = "--" + name.replace("_", "-"), listed(value)
    match values:
        case [None | False]:
            return []
        case [True]:
            return [option]
    words = (os.fspath(one) if isinstance(one, os.PathLike) else str(one) for one in values)
    return [f"{option}=" + ",".join(words)]


def _follow(words: list[str], progress: Progress) -> tuple[str, int, list[str]]:
    """What the program prints, how it ends, and what it says beside progress."""
    environment = {**os.environ, "LC_ALL": os.environ.get("LC_ALL", "C.UTF-8")}
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
        # A terminal would interrupt it, too, and a second interrupt is another thing.
        process_group=0,
    ) as child:
        stdout, stderr = child.stdout, child.stderr
        assert stdout is not None and stderr is not None, "both are pipes"
        printed: list[str] = []
        notes: list[str] = []
        reader = threading.Thread(target=lambda: printed.append(stdout.read()))
        reader.start()
        try:
            for line in stderr:
                if not progress.line(line.rstrip("\n")):
                    notes.append(line.rstrip("\n"))
        except BaseException:
            # Also a reader of progress that has gone away: a program that nobody reads would wait for ever.
            child.send_signal(signal.SIGINT)
            stderr.read()
            raise
        finally:
            reader.join()
    return "".join(printed), child.returncode, notes


def _opened(output: str, code: int, notes: list[str]) -> Store:
    said = [line.removeprefix("iopj: ") for line in notes if line.startswith("iopj: ")]
    if code not in (0, _FAILED_TRIALS):
        message = "\n".join(said or notes) or f"it ended with {code} and said nothing"
        raise ProgramError(message, code)
    names = [line.removeprefix("store: ") for line in output.splitlines() if line.startswith("store: ")]
    if not names:
        raise ProgramError("the run wrote no store: leave out options that print other things", code)
    if code == _FAILED_TRIALS:
        failed = "\n".join(line for line in notes if line.startswith("failed: "))
        warnings.warn(f"trials failed:\n{failed}", FailedTrials, stacklevel=3)
    return Store(names[-1])
