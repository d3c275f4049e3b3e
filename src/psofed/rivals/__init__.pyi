"""The names of this package: `__init__.py` finds them here, and so do type checkers."""

from psofed.rivals.asofed import ASOFed as ASOFed
from psofed.rivals.cmfl import CMFL as CMFL
from psofed.rivals.ditto import Ditto as Ditto
from psofed.rivals.etpsofed import ETPSOFed as ETPSOFed
from psofed.rivals.fedpoe import FedPOE as FedPOE
from psofed.rivals.fedprox import FedProx as FedProx
from psofed.rivals.fedscr import FedSCR as FedSCR
from psofed.rivals.pdlms import PdLMS as PdLMS
from psofed.rivals.pdrls import PdRLS as PdRLS
from psofed.rivals.pofmkl import POFMKL as POFMKL
from psofed.rivals.psorls import PSORLS as PSORLS
from psofed.rivals.qsgd import QSGD as QSGD
from psofed.rivals.quantised import Quantised as Quantised
from psofed.rivals.raw import Raw as Raw
from psofed.rivals.sketch import Sketch as Sketch
from psofed.rivals.structured import Structured as Structured
from psofed.rivals.topk import TopK as TopK

HELPERS: tuple[str, ...]
