"""The names at the top: `__init__.py` finds them here, and so do type checkers and editors."""

# ruff: noqa: F401, N811

from psofed.compare.comparing import Comparison as Comparison
from psofed.compare.comparing import compare_methods as compare_methods
from psofed.compare.running import run as run
from psofed.compare.sweeping import SweepResult as SweepResult
from psofed.compare.sweeping import sweep as sweep
from psofed.curves import Curves as Curves
from psofed.errors import InputError as InputError
from psofed.errors import PsofedWarning as PsofedWarning
from psofed.experiment import Experiment as Experiment
from psofed.experiment import read as read
from psofed.extras import MissingExtraError as MissingExtraError
from psofed.federation.feature_table import Features as Features
from psofed.federation.learners.linear import LinearLearner as LinearLearner
from psofed.federation.learners.lms import LMS as LMSLearner
from psofed.federation.learners.nlms import NLMS as NLMSLearner
from psofed.federation.membership import Change as Change
from psofed.methods.centralised import Centralised as Centralised
from psofed.methods.fedavg import FedAvg as FedAvg
from psofed.methods.local import Local as Local
from psofed.methods.memofed import MemoFed as MemoFed
from psofed.methods.onlinefed import OnlineFed as OnlineFed
from psofed.methods.paofed import PAOFed as PAOFed
from psofed.methods.periodic import Periodic as Periodic
from psofed.methods.psofed import PSOFed as PSOFed
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
from psofed.rivals.policies.fedcs import FedCS as FedCSPolicy
from psofed.rivals.policies.folb import FOLB as FOLBPolicy
from psofed.rivals.policies.importance import Importance as ImportancePolicy
from psofed.rivals.policies.optimal import Optimal as OptimalPolicy
from psofed.rivals.psorls import PSORLS as PSORLS
from psofed.rivals.qsgd import QSGD as QSGD
from psofed.rivals.quantised import Quantised as Quantised
from psofed.rivals.raw import Raw as Raw
from psofed.rivals.sketch import Sketch as Sketch
from psofed.rivals.structured import Structured as Structured
from psofed.rivals.topk import TopK as TopK
from psofed.simulate.montecarlo import Interrupted as Interrupted
from psofed.simulate.montecarlo import finished_runs as finished_runs
from psofed.simulate.online import Federation as Federation
from psofed.stages.attacks.adaptive import Adaptive as AdaptiveAttack
from psofed.stages.attacks.alie import ALIE as ALIEAttack
from psofed.stages.attacks.collusion import Collusion as CollusionAttack
from psofed.stages.attacks.constant import Constant as ConstantAttack
from psofed.stages.attacks.ipm import IPM as IPMAttack
from psofed.stages.attacks.labels import Labels as LabelsAttack
from psofed.stages.attacks.minmax import MinMax as MinMaxAttack
from psofed.stages.attacks.offset import Offset as OffsetAttack
from psofed.stages.attacks.perturbation import Perturbation as PerturbationAttack
from psofed.stages.attacks.scale import Scale as ScaleAttack
from psofed.stages.attacks.stuck import Stuck as StuckAttack
from psofed.stages.checks.none import NoCheck as NoneCheck
from psofed.stages.checks.outliers import Outliers as OutliersCheck
from psofed.stages.checks.range import InRange as RangeCheck
from psofed.stages.defences.centred import Centred as CentredDefence
from psofed.stages.defences.clip import Clip as ClipDefence
from psofed.stages.defences.krum import Krum as KrumDefence
from psofed.stages.defences.median import Median as MedianDefence
from psofed.stages.defences.none import NoDefence as NoneDefence
from psofed.stages.defences.trimmed import Trimmed as TrimmedDefence
from psofed.stages.privacy import Privacy as Privacy
from psofed.streams.function import FunctionStream as Stream
from psofed.streams.paper import PaperStream as PaperStream
from psofed.streams.table import TableStream as TableStream
from psofed.tables.fitting import Fit as Fit
from psofed.tables.fitting import fit_table as fit_table
from psofed.tables.model import Model as Model
from psofed.tables.model import load as load_model
from psofed.theory.prediction import Prediction as Prediction
from psofed.theory.prediction import curves as predict_curves

__all__: list[str]
__version__: str
_HOMES: dict[str, str]
