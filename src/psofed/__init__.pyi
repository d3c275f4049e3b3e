"""The names at the top: `__init__.py` finds them here, and so do type checkers and editors."""

# ruff: noqa: F401

from psofed import methods as methods
from psofed import rivals as rivals
from psofed import streams as streams
from psofed.compare.comparing import compare_methods as compare_methods
from psofed.compare.running import run as run
from psofed.compare.sweeping import sweep as sweep
from psofed.curves import Curves as Curves
from psofed.errors import InputError as InputError
from psofed.errors import PsofedWarning as PsofedWarning
from psofed.experiment import Experiment as Experiment
from psofed.experiment import read as read
from psofed.federation import learners as learners
from psofed.federation.feature_table import Features as Features
from psofed.federation.membership import Change as Change
from psofed.methods.fedavg import FedAvg as FedAvg
from psofed.methods.memofed import MemoFed as MemoFed
from psofed.methods.onlinefed import OnlineFed as OnlineFed
from psofed.methods.psofed import PSOFed as PSOFed
from psofed.rivals import policies as policies
from psofed.simulate.montecarlo import Interrupted as Interrupted
from psofed.simulate.montecarlo import finished_runs as finished_runs
from psofed.simulate.online import Federation as Federation
from psofed.stages import attacks as attacks
from psofed.stages import checks as checks
from psofed.stages import defences as defences
from psofed.stages.privacy import Privacy as Privacy
from psofed.streams.function import FunctionStream as Stream
from psofed.streams.paper import PaperStream as PaperStream
from psofed.tables.fitting import fit_table as fit_table
from psofed.tables.model import Model as Model
from psofed.tables.model import load as load_model
from psofed.theory.prediction import curves as predict_curves

__all__: list[str]
__version__: str
_HOMES: dict[str, str]
_HOMES_IN: dict[str, dict[str, str]]
_PACKAGES: dict[str, str]
