"""The names of this package: `__init__.py` finds them here, and so do type checkers."""

from psofed.federation.learners.linear import LinearLearner as LinearLearner
from psofed.federation.learners.lms import LMS as LMS
from psofed.federation.learners.nlms import NLMS as NLMS

HELPERS: tuple[str, ...]
