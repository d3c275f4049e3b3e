"""The names of this package: `__init__.py` finds them here, and so do type checkers."""

from psofed.stages.checks.none import NoCheck as NoCheck
from psofed.stages.checks.outliers import Outliers as Outliers
from psofed.stages.checks.range import InRange as InRange

HELPERS: tuple[str, ...]
