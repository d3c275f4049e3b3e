"""The names of this package: `__init__.py` finds them here, and so do type checkers."""

from psofed.stages.attacks.adaptive import Adaptive as Adaptive
from psofed.stages.attacks.alie import ALIE as ALIE
from psofed.stages.attacks.collusion import Collusion as Collusion
from psofed.stages.attacks.constant import Constant as Constant
from psofed.stages.attacks.ipm import IPM as IPM
from psofed.stages.attacks.labels import Labels as Labels
from psofed.stages.attacks.minmax import MinMax as MinMax
from psofed.stages.attacks.offset import Offset as Offset
from psofed.stages.attacks.perturbation import Perturbation as Perturbation
from psofed.stages.attacks.scale import Scale as Scale
from psofed.stages.attacks.stuck import Stuck as Stuck

HELPERS: tuple[str, ...]
