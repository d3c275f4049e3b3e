"""psofed: online federated learning of nonlinear regression when every byte counts.

>>> import psofed
>>> experiment = psofed.Experiment(clients=10, rounds=20, runs=2, test_samples=100)
>>> psofed.run(experiment).mse.shape
(7, 21)

Every method, stream, policy, learner, check, attack and defence has a name here: that of its file,
as its authors write it, with Stream, Policy, Learner, Check, Attack or Defence after it for those.

>>> psofed.FedAvg(local_steps=3).name, psofed.PaperStream().name, psofed.FedCSPolicy.name
('fedavg', 'paper', 'fedcs')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from psofed.core import __version__ as __version__

# Loaded on first use, so that `import psofed` and `psofed --help` are fast. No name may be that of
# a module in this folder, which would take its place as soon as it is imported.
_HOMES = {
    # an experiment, and its curves
    "Experiment": "psofed.experiment",
    "Features": "psofed.federation.feature_table",
    "Change": "psofed.federation.membership",
    "Privacy": "psofed.stages.privacy",
    "read": "psofed.experiment",
    "run": "psofed.simulate.montecarlo",
    "Curves": "psofed.curves",
    "Interrupted": "psofed.simulate.montecarlo",
    "finished_runs": "psofed.simulate.montecarlo",
    # many of them
    "compare_methods": "psofed.compare.comparing",
    "Comparison": "psofed.compare.comparing",
    "sweep": "psofed.compare.sweeping",
    "SweepResult": "psofed.compare.sweeping",
    # the theory
    "predict_curves": "psofed.theory.prediction:curves",
    "Prediction": "psofed.theory.prediction",
    # your own table
    "fit_table": "psofed.tables.fitting",
    "load_model": "psofed.tables.model:load",
    "Fit": "psofed.tables.fitting",
    "Model": "psofed.tables.model",
    # what can go wrong
    "InputError": "psofed.errors",
    "MissingExtraError": "psofed.extras",
    # methods: the name in a file, as its authors write it
    "ASOFed": "psofed.rivals.asofed:Options",
    "Centralised": "psofed.methods.centralised:Options",
    "CMFL": "psofed.rivals.cmfl:Options",
    "ETPSOFed": "psofed.rivals.etpsofed:Options",
    "FedAvg": "psofed.methods.fedavg:Options",
    "FedProx": "psofed.rivals.fedprox:Options",
    "FedSCR": "psofed.rivals.fedscr:Options",
    "Local": "psofed.methods.local:Options",
    "MemoFed": "psofed.methods.memofed:Options",
    "OnlineFed": "psofed.methods.onlinefed:Options",
    "PAOFed": "psofed.methods.paofed:Options",
    "PdLMS": "psofed.rivals.pdlms:Options",
    "PdRLS": "psofed.rivals.pdrls:Options",
    "Periodic": "psofed.rivals.periodic:Options",
    "PSOFed": "psofed.methods.psofed:Options",
    "PSORLS": "psofed.rivals.psorls:Options",
    "QSGD": "psofed.rivals.qsgd:Options",
    "Quantised": "psofed.rivals.quantised:Options",
    "Raw": "psofed.rivals.raw:Options",
    "Sketch": "psofed.rivals.sketch:Options",
    "Structured": "psofed.rivals.structured:Options",
    "TopK": "psofed.rivals.topk:Options",
    # streams: the same, and Stream
    "PaperStream": "psofed.streams.paper:Options",
    "Stream": "psofed.streams.function:Options",
    "TableStream": "psofed.streams.table:Options",
    # policies: the same, and Policy
    "FedCSPolicy": "psofed.rivals.policies.fedcs:Options",
    "FOLBPolicy": "psofed.rivals.policies.folb:Options",
    "ImportancePolicy": "psofed.rivals.policies.importance:Options",
    "OptimalPolicy": "psofed.rivals.policies.optimal:Options",
    # learners: the same, and Learner
    "LinearLearner": "psofed.federation.learners.linear:Options",
    "LMSLearner": "psofed.federation.learners.lms:Options",
    "NetworkLearner": "psofed.federation.learners.network:Options",
    "NLMSLearner": "psofed.federation.learners.nlms:Options",
    "TorchLearner": "psofed.federation.learners.torch:Options",
    # sample checks: the same, and Check
    "OutliersCheck": "psofed.stages.checks.outliers:Options",
    "NoneCheck": "psofed.stages.checks.none:Options",
    "RangeCheck": "psofed.stages.checks.range:Options",
    # attacks: the same, and Attack
    "AdaptiveAttack": "psofed.stages.attacks.adaptive:Options",
    "ALIEAttack": "psofed.stages.attacks.alie:Options",
    "CollusionAttack": "psofed.stages.attacks.collusion:Options",
    "ConstantAttack": "psofed.stages.attacks.constant:Options",
    "IPMAttack": "psofed.stages.attacks.ipm:Options",
    "LabelsAttack": "psofed.stages.attacks.labels:Options",
    "MinMaxAttack": "psofed.stages.attacks.minmax:Options",
    "OffsetAttack": "psofed.stages.attacks.offset:Options",
    "PerturbationAttack": "psofed.stages.attacks.perturbation:Options",
    "ScaleAttack": "psofed.stages.attacks.scale:Options",
    "StuckAttack": "psofed.stages.attacks.stuck:Options",
    # defences: the same, and Defence
    "CentredDefence": "psofed.stages.defences.centred:Options",
    "ClipDefence": "psofed.stages.defences.clip:Options",
    "KrumDefence": "psofed.stages.defences.krum:Options",
    "MedianDefence": "psofed.stages.defences.median:Options",
    "NoneDefence": "psofed.stages.defences.none:Options",
    "TrimmedDefence": "psofed.stages.defences.trimmed:Options",
}
__all__ = ["__version__", *_HOMES]

if TYPE_CHECKING:
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
    from psofed.federation.learners.network import Options as NetworkLearner
    from psofed.federation.learners.nlms import Options as NLMSLearner
    from psofed.federation.learners.torch import Options as TorchLearner
    from psofed.federation.membership import Change as Change
    from psofed.methods.centralised import Options as Centralised
    from psofed.methods.fedavg import Options as FedAvg
    from psofed.methods.local import Options as Local
    from psofed.methods.memofed import Options as MemoFed
    from psofed.methods.onlinefed import Options as OnlineFed
    from psofed.methods.paofed import Options as PAOFed
    from psofed.methods.psofed import Options as PSOFed
    from psofed.rivals.asofed import Options as ASOFed
    from psofed.rivals.cmfl import Options as CMFL
    from psofed.rivals.etpsofed import Options as ETPSOFed
    from psofed.rivals.fedprox import Options as FedProx
    from psofed.rivals.fedscr import Options as FedSCR
    from psofed.rivals.pdlms import Options as PdLMS
    from psofed.rivals.pdrls import Options as PdRLS
    from psofed.rivals.periodic import Options as Periodic
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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'psofed' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted(__all__)
