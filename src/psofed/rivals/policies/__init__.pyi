"""The names of this package: `__init__.py` finds them here, and so do type checkers."""

from psofed.rivals.policies.fedcs import FedCS as FedCS
from psofed.rivals.policies.folb import FOLB as FOLB
from psofed.rivals.policies.importance import Importance as Importance
from psofed.rivals.policies.optimal import Optimal as Optimal

HELPERS: tuple[str, ...]
