"""Values of keywords as Python's own: one or several, also NumPy's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """A scalar or an array of NumPy's as Python's own; anything else as it is."""
    return value.tolist() if isinstance(value, (np.generic, np.ndarray)) else value


def listed(value: Any) -> list[Any]:
    """One value, or all of several. A text is one."""
    value = plain(value)
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [value]
    return [plain(one) for one in value]
