"""psofed as it is where nothing is compiled."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from psofed.core import native


@contextmanager
def uncompiled() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "library", lambda level=None: None)
        native.function.cache_clear()  # or what has been called before could be called again
        yield


def both(function: Callable[..., Any], *given: Any) -> tuple[Any, Any]:
    """What a function returns, and what it returns where nothing is compiled."""
    found = function(*given)
    with uncompiled():
        return found, function(*given)
