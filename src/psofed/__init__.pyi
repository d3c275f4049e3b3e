"""The names at the top: `__init__.py` finds them here, and so do type checkers and editors."""

# ruff: noqa: F401, N814

from psofed.compare.comparing import Comparison as Comparison
from psofed.compare.comparing import compare_methods as compare_methods
from psofed.compare.sweeping import SweepResult as SweepResult
from psofed.compare.sweeping import sweep as sweep
from psofed.curves import Curves as Curves
from psofed.errors import InputError as InputError
from psofed.experiment import Experiment as Experiment
from psofed.experiment import read as read
from psofed.extras import MissingExtraError as MissingExtraError
from psofed.federation.feature_table import Features as Features
from psofed.federation.learners.linear import Options as LinearLearner
from psofed.federation.learners.lms import Options as LMSLearner
from psofed.federation.learners.nlms import Options as NLMSLearner
from psofed.federation.membership import Change as Change
from psofed.federation.options import ServerStep as ServerStep
from psofed.methods.centralised import Options as Centralised
from psofed.methods.fedavg import Options as FedAvg
from psofed.methods.local import Options as Local
from psofed.methods.memofed import Options as MemoFed
from psofed.methods.onlinefed import Options as OnlineFed
from psofed.methods.paofed import Options as PAOFed
from psofed.methods.periodic import Options as Periodic
from psofed.methods.psofed import Options as PSOFed
from psofed.rivals.asofed import Options as ASOFed
from psofed.rivals.cmfl import Options as CMFL
from psofed.rivals.ditto import Options as Ditto
from psofed.rivals.etpsofed import Options as ETPSOFed
from psofed.rivals.fedpoe import Options as FedPOE
from psofed.rivals.fedprox import Options as FedProx
from psofed.rivals.fedscr import Options as FedSCR
from psofed.rivals.pdlms import Options as PdLMS
from psofed.rivals.pdrls import Options as PdRLS
from psofed.rivals.pofmkl import Options as POFMKL
from psofed.rivals.policies.fedcs import Options as FedCSPolicy
from psofed.rivals.policies.folb import Options as FOLBPolicy
from psofed.rivals.policies.importance import Options as ImportancePolicy
from psofed.rivals.policies.optimal import Options as OptimalPolicy
from psofed.rivals.psorls import Options as PSORLS
from psofed.rivals.qsgd import Options as QSGD
from psofed.rivals.quantised import Options as Quantised
from psofed.rivals.raw import Options as Raw
from psofed.rivals.sketch import Options as Sketch
from psofed.rivals.structured import Options as Structured
from psofed.rivals.topk import Options as TopK
from psofed.simulate.montecarlo import Interrupted as Interrupted
from psofed.simulate.montecarlo import finished_runs as finished_runs
from psofed.simulate.montecarlo import run as run
from psofed.stages.attacks.adaptive import Options as AdaptiveAttack
from psofed.stages.attacks.alie import Options as ALIEAttack
from psofed.stages.attacks.collusion import Options as CollusionAttack
from psofed.stages.attacks.constant import Options as ConstantAttack
from psofed.stages.attacks.ipm import Options as IPMAttack
from psofed.stages.attacks.labels import Options as LabelsAttack
from psofed.stages.attacks.minmax import Options as MinMaxAttack
from psofed.stages.attacks.offset import Options as OffsetAttack
from psofed.stages.attacks.perturbation import Options as PerturbationAttack
from psofed.stages.attacks.scale import Options as ScaleAttack
from psofed.stages.attacks.stuck import Options as StuckAttack
from psofed.stages.checks.none import Options as NoneCheck
from psofed.stages.checks.outliers import Options as OutliersCheck
from psofed.stages.checks.range import Options as RangeCheck
from psofed.stages.defences.centred import Options as CentredDefence
from psofed.stages.defences.clip import Options as ClipDefence
from psofed.stages.defences.krum import Options as KrumDefence
from psofed.stages.defences.median import Options as MedianDefence
from psofed.stages.defences.none import Options as NoneDefence
from psofed.stages.defences.trimmed import Options as TrimmedDefence
from psofed.stages.privacy import Privacy as Privacy
from psofed.streams.function import Options as Stream
from psofed.streams.paper import Options as PaperStream
from psofed.streams.table import Options as TableStream
from psofed.tables.fitting import Fit as Fit
from psofed.tables.fitting import fit_table as fit_table
from psofed.tables.model import Model as Model
from psofed.tables.model import load as load_model
from psofed.theory.prediction import Prediction as Prediction
from psofed.theory.prediction import curves as predict_curves

__all__: list[str]
__version__: str
_HOMES: dict[str, str]
