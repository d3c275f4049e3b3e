"""psofed as it is where nothing is compiled."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from psofed.core import native


@contextmanager
def uncompiled() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "library", lambda level=None: None)
        yield
