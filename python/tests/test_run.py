"""Runs of the program: what it says, how it ends, progress."""

import os
import signal
import sys
import sysconfig
import threading
from pathlib import Path

import iopj
import numpy as np
import pytest
from iopj import _progress, _run

ONE = {
    "path": "libaio/syscall/interrupt",
    "rw": "randread",
    "bs": "4k",
    "iodepth": 1,
    "numjobs": 1,
    "meters": "none",
}
SHORT = {"wait": "10m", "runtime": "50ms", "ramp_time": "10ms", "replicates": 1}


def test_the_program_of_the_package_is_run() -> None:
    assert Path(iopj.program()) == Path(sysconfig.get_path("scripts"), "iopj").resolve()


def test_what_the_program_says_is_raised(folder: Path) -> None:
    with pytest.raises(iopj.ProgramError, match="does not exist: name a file") as raised:
        iopj.run(target=folder / "none", progress=False)
    assert raised.value.exit_code == 2
    with pytest.raises(iopj.ProgramError, match="unexpected argument '--speed'"):
        iopj.run(speed=3, progress=False)
    assert not list(folder.glob("quick*.iopj"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Path("a/b"), ["--some-option=a/b"]),
        (np.int64(8), ["--some-option=8"]),
        (np.array([1, 8]), ["--some-option=1,8"]),
        ([np.uint32(1), 0.5, "k", Path("p")], ["--some-option=1,0.5,k,p"]),
        (np.True_, ["--some-option"]),
        (True, ["--some-option"]),
        (False, []),
        (None, []),
        (1, ["--some-option=1"]),
        (0, ["--some-option=0"]),
    ],
)
def test_options_take_paths_and_what_numpy_has(value: object, words: list[str]) -> None:
    """They were iterated over, which neither of them can be."""
    assert _run._option("some_option", value) == words


def test_progress_is_lines_without_a_notebook(
    folder: Path, data: str, capfd: pytest.CaptureFixture[str]
) -> None:
    store = iopj.run(target=data, store=folder / "lines.iopj", **ONE, **SHORT)
    said = capfd.readouterr().err
    assert "1/1 libaio/syscall/interrupt randread 4k iodepth 1 numjobs 1" in said
    assert store.name == "quick" and store.emulated is None and "kernel" in store.provenance


def test_a_bar_counts_trials_and_keeps_notes() -> None:
    shown: list[str] = []

    class Handle:
        def update(self, markup) -> None:
            shown.append(markup.data)

    def display(markup, display_id: bool) -> Handle:
        assert display_id
        shown.append(markup.data)
        return Handle()

    bar = _progress._Bar(display)
    assert not bar.line("no meter was <found>")
    assert bar.line("2/4 libaio randread (about 3 s left)")
    assert "no meter was &lt;found&gt;" in shown[-1] and "width: 25.0%" in shown[-1]
    assert "1/4" in shown[-1] and "libaio randread, 3 s left" in shown[-1]
    bar.end()
    assert "width: 100.0%" in shown[-1]


def test_what_the_program_prints_is_read_beside_what_it_says(tmp_path: Path) -> None:
    """More than a pipe holds, on both, in turns."""
    script = tmp_path / "says"
    both = "print('x' * 999); print('y' * 999, file=sys.stderr)"
    script.write_text(f"import sys\nfor _ in range(300): {both}\n")
    output, code, notes = _run._follow([sys.executable, str(script)], _progress.Progress())
    assert (len(output), code, len(notes)) == (300_000, 0, 300)


def test_an_interrupt_ends_the_program(folder: Path, data: str) -> None:
    class Interrupts(_progress.Progress):
        def line(self, line: str) -> bool:
            if line.startswith("1/"):
                signal.raise_signal(signal.SIGINT)
            return super().line(line)

    words = [iopj.program(), "run", f"--target={data}", f"--store={folder / 'stopped.iopj'}"]
    words += [f"--{name.replace('_', '-')}={value}" for name, value in ONE.items()]
    with pytest.raises(KeyboardInterrupt):
        _run._follow([*words, "--runtime=600s", "--replicates=1", "--wait=10m"], Interrupts())
    assert threading.active_count() == 1 and os.path.exists(folder / "stopped.iopj")
