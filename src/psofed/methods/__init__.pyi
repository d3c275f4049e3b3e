"""The names of this package: `__init__.py` finds them here, and so do type checkers."""

from psofed.federation.options import ServerStep as ServerStep
from psofed.methods.centralised import Centralised as Centralised
from psofed.methods.fedavg import FedAvg as FedAvg
from psofed.methods.local import Local as Local
from psofed.methods.memofed import MemoFed as MemoFed
from psofed.methods.onlinefed import OnlineFed as OnlineFed
from psofed.methods.paofed import PAOFed as PAOFed
from psofed.methods.periodic import Periodic as Periodic
from psofed.methods.psofed import PSOFed as PSOFed

HELPERS: tuple[str, ...]
