"""What one I/O costs on every path that Linux offers: stores, answers, figures, runs and engines.

`open` gives a store of the program `iopj` as Arrow tables, and answers the program's questions by the same
code. `run` starts the program. `File` and `Auto` read and write on any I/O path. `iopj.figures` draws with
matplotlib.

Names have their units: `latency_ns_p99` is in nanoseconds, `joules` in joules, `timeout_s` in seconds.
"""

from iopj._file import Auto, File, Request, make_file
from iopj._histogram import Histogram
from iopj._native import Buffer, Error
from iopj._run import FailedTrials, ProgramError, program, run
from iopj._store import Store, compare, open

__all__ = [
    "Auto",
    "Buffer",
    "Error",
    "FailedTrials",
    "File",
    "Histogram",
    "ProgramError",
    "Request",
    "Store",
    "compare",
    "make_file",
    "open",
    "program",
    "run",
]
