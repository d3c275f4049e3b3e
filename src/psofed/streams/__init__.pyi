"""The names of this package: `__init__.py` finds them here, and so do type checkers."""

from psofed.streams.function import FunctionStream as FunctionStream
from psofed.streams.paper import PaperStream as PaperStream
from psofed.streams.table import TableStream as TableStream

HELPERS: tuple[str, ...]
