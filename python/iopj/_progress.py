"""Progress of a run: a bar in a notebook, lines on standard error elsewhere."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: A line of the program about a trial: its number, how many there are, the trial, and the time left.
_TRIAL = re.compile(r"^(\d+)/(\d+) (.*?)(?: \(about (.+) left\))?$")


class Progress:
    """Shows nothing."""

    def line(self, line: str) -> bool:
        """Takes a line of the program; True if it was only of progress."""
        return _TRIAL.match(line) is not None

    def end(self) -> None:
        """The program has ended."""


class _Lines(Progress):
    """Passes every line on to standard error."""

    def line(self, line: str) -> bool:
        if not line.startswith("iopj: "):
            print(line, file=sys.stderr, flush=True)
        return super().line(line)


class _Bar(Progress):
    """A bar in a notebook, with the notes of the program below it."""

    def __init__(self, display: Any) -> None:
        self._notes: list[str] = []
        self._trial = ""
        self._done = 0
        self._of = 0
        self._handle = display(self._markup(), display_id=True)

    def line(self, line: str) -> bool:
        trial = _TRIAL.match(line)
        if trial is None:
            self._notes += [] if line.startswith("iopj: ") else [line]
        else:
            number, of, what, left = trial.groups()
            self._done, self._of = int(number) - 1, int(of)
            self._trial = what + (f", {left} left" if left else "")
        self._handle.update(self._markup())
        return trial is not None

    def end(self) -> None:
        self._done, self._trial = self._of, f"{self._of} trials" if self._of else ""
        self._handle.update(self._markup())

    def _markup(self) -> Any:
        from IPython import display

        share = 100 * self._done / self._of if self._of else 0
        count = f"{self._done}/{self._of}" if self._of else "…"
        notes = "".join(f"<div>{html.escape(note)}</div>" for note in self._notes[-5:])
        markup = (
            '<div style="font: 13px/1.5 sans-serif; max-width: 60em">'
            '<div style="display: flex; gap: 0.8em; align-items: center">'
            '<div style="flex: none; width: 12em; height: 0.6em; background: #e1e4e8; border-radius: 3px">'
            f'<div style="width: {share:.1f}%; height: 100%; background: #0065a3; border-radius: 3px"></div>'
            f'</div><div style="font-variant-numeric: tabular-nums">{count}</div>'
            f'<div style="color: #59636e">{html.escape(self._trial)}</div></div>'
            f'<div style="color: #59636e; font-size: 12px">{notes}</div></div>'
        )
        show: Any = display.HTML
        return show(markup)


@contextmanager
def shown(progress: bool) -> Iterator[Progress]:
    """Progress as it is shown here, or not at all."""
    shows = _chosen() if progress else Progress()
    yield shows
    # An error leaves the bar where it was.
    shows.end()


def _chosen() -> Progress:
    """A bar where a notebook's kernel runs, which is what has IPython with a kernel."""
    if "IPython" not in sys.modules:
        return _Lines()
    from IPython import get_ipython
    from IPython.display import display

    shell = get_ipython()
    return _Bar(display) if shell is not None and hasattr(shell, "kernel") else _Lines()
