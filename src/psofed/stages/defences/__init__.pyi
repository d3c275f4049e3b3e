"""The names of this package: `__init__.py` finds them here, and so do type checkers."""

from psofed.stages.defences.centred import Centred as Centred
from psofed.stages.defences.clip import Clip as Clip
from psofed.stages.defences.krum import Krum as Krum
from psofed.stages.defences.median import Median as Median
from psofed.stages.defences.none import NoDefence as NoDefence
from psofed.stages.defences.trimmed import Trimmed as Trimmed

HELPERS: tuple[str, ...]
