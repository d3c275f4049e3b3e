"""psofed: online federated learning of nonlinear regression when every byte counts.

>>> import psofed
>>> experiment = psofed.Experiment(clients=10, rounds=20, runs=2, test_samples=100)
>>> psofed.run(experiment).mse.shape
(7, 21)

Every method, stream, policy, learner, check, attack and defence has a name here: that of its file,
as its authors write it, with Stream, Policy, Learner, Check, Attack or Defence after it for those.

>>> psofed.FedAvg(local_steps=3).name, psofed.DriftStream().name, psofed.FedCSPolicy.name
('fedavg', 'drift', 'fedcs')
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

from psofed.version import __version__ as __version__

# Loaded on first use, so that `import psofed` and `psofed --help` are fast. No name may be that of
# a module in this folder, which would take its place as soon as it is imported.
_HOMES = {
    # an experiment, and its curves
    "Experiment": "psofed.experiment",
    "Features": "psofed.core.feature_table",
    "Change": "psofed.core.fleet",
    "Privacy": "psofed.privacy.settings",
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
    "fit_table": "psofed.fit.fitting",
    "load_model": "psofed.fit.model:load",
    "Fit": "psofed.fit.outcome",
    "Model": "psofed.fit.model",
    # what can go wrong
    "InputError": "psofed.errors",
    "MissingExtraError": "psofed.extras",
    # methods: the name in a file, as its authors write it
    "ASOFed": "psofed.methods.asofed:Options",
    "Centralised": "psofed.methods.centralised:Options",
    "CMFL": "psofed.methods.cmfl:Options",
    "ETPSOFed": "psofed.methods.etpsofed:Options",
    "FedAvg": "psofed.methods.fedavg:Options",
    "FedProx": "psofed.methods.fedprox:Options",
    "FedSCR": "psofed.methods.fedscr:Options",
    "Local": "psofed.methods.local:Options",
    "MemoFed": "psofed.methods.memofed:Options",
    "OnlineFed": "psofed.methods.onlinefed:Options",
    "PAOFed": "psofed.methods.paofed:Options",
    "PdLMS": "psofed.methods.pdlms:Options",
    "PdRLS": "psofed.methods.pdrls:Options",
    "Periodic": "psofed.methods.periodic:Options",
    "PSOFed": "psofed.methods.psofed:Options",
    "PSORLS": "psofed.methods.psorls:Options",
    "QSGD": "psofed.methods.qsgd:Options",
    "Quantised": "psofed.methods.quantised:Options",
    "Raw": "psofed.methods.raw:Options",
    "Sketch": "psofed.methods.sketch:Options",
    "Structured": "psofed.methods.structured:Options",
    "TopK": "psofed.methods.topk:Options",
    # streams: the same, and Stream
    "ChangeStream": "psofed.streams.change:Options",
    "DriftStream": "psofed.streams.drift:Options",
    "IIDStream": "psofed.streams.iid:Options",
    "PaperStream": "psofed.streams.paper:Options",
    "Stream": "psofed.streams.function:Options",
    "TableStream": "psofed.streams.table:Options",
    # policies: the same, and Policy
    "FedCSPolicy": "psofed.policies.fedcs:Options",
    "FOLBPolicy": "psofed.policies.folb:Options",
    "ImportancePolicy": "psofed.policies.importance:Options",
    "OptimalPolicy": "psofed.policies.optimal:Options",
    # learners: the same, and Learner
    "LinearLearner": "psofed.learners.linear:Options",
    "LMSLearner": "psofed.learners.lms:Options",
    "NetworkLearner": "psofed.learners.network:Options",
    "NLMSLearner": "psofed.learners.nlms:Options",
    "TorchLearner": "psofed.learners.torch:Options",
    # sample checks: the same, and Check
    "OutliersCheck": "psofed.sample_checks.outliers:Options",
    "NoneCheck": "psofed.sample_checks.none:Options",
    "RangeCheck": "psofed.sample_checks.range:Options",
    # attacks: the same, and Attack
    "AdaptiveAttack": "psofed.attacks.adaptive:Options",
    "ALIEAttack": "psofed.attacks.alie:Options",
    "CollusionAttack": "psofed.attacks.collusion:Options",
    "ConstantAttack": "psofed.attacks.constant:Options",
    "IPMAttack": "psofed.attacks.ipm:Options",
    "LabelsAttack": "psofed.attacks.labels:Options",
    "MinMaxAttack": "psofed.attacks.minmax:Options",
    "OffsetAttack": "psofed.attacks.offset:Options",
    "PerturbationAttack": "psofed.attacks.perturbation:Options",
    "ScaleAttack": "psofed.attacks.scale:Options",
    "StuckAttack": "psofed.attacks.stuck:Options",
    # defences: the same, and Defence
    "CentredDefence": "psofed.defences.centred:Options",
    "ClipDefence": "psofed.defences.clip:Options",
    "KrumDefence": "psofed.defences.krum:Options",
    "MedianDefence": "psofed.defences.median:Options",
    "NoneDefence": "psofed.defences.none:Options",
    "TrimmedDefence": "psofed.defences.trimmed:Options",
}
# Old names, which work for one version more, with a warning; `renamed` warns when it is called.
_OLD = {"LocalOnly": "Local"}
_RENAMED = {"predict": "psofed.theory.prediction:renamed"}
__all__ = ["__version__", *_HOMES]

if TYPE_CHECKING:
    from psofed.attacks.adaptive import Options as AdaptiveAttack
    from psofed.attacks.alie import Options as ALIEAttack
    from psofed.attacks.collusion import Options as CollusionAttack
    from psofed.attacks.constant import Options as ConstantAttack
    from psofed.attacks.ipm import Options as IPMAttack
    from psofed.attacks.labels import Options as LabelsAttack
    from psofed.attacks.minmax import Options as MinMaxAttack
    from psofed.attacks.offset import Options as OffsetAttack
    from psofed.attacks.perturbation import Options as PerturbationAttack
    from psofed.attacks.scale import Options as ScaleAttack
    from psofed.attacks.stuck import Options as StuckAttack
    from psofed.compare.comparing import Comparison as Comparison
    from psofed.compare.comparing import compare_methods as compare_methods
    from psofed.compare.sweeping import SweepResult as SweepResult
    from psofed.compare.sweeping import sweep as sweep
    from psofed.core.feature_table import Features as Features
    from psofed.core.fleet import Change as Change
    from psofed.curves import Curves as Curves
    from psofed.defences.centred import Options as CentredDefence
    from psofed.defences.clip import Options as ClipDefence
    from psofed.defences.krum import Options as KrumDefence
    from psofed.defences.median import Options as MedianDefence
    from psofed.defences.none import Options as NoneDefence
    from psofed.defences.trimmed import Options as TrimmedDefence
    from psofed.errors import InputError as InputError
    from psofed.experiment import Experiment as Experiment
    from psofed.experiment import read as read
    from psofed.extras import MissingExtraError as MissingExtraError
    from psofed.fit.fitting import fit_table as fit_table
    from psofed.fit.model import Model as Model
    from psofed.fit.model import load as load_model
    from psofed.fit.outcome import Fit as Fit
    from psofed.learners.linear import Options as LinearLearner
    from psofed.learners.lms import Options as LMSLearner
    from psofed.learners.network import Options as NetworkLearner
    from psofed.learners.nlms import Options as NLMSLearner
    from psofed.learners.torch import Options as TorchLearner
    from psofed.methods.asofed import Options as ASOFed
    from psofed.methods.centralised import Options as Centralised
    from psofed.methods.cmfl import Options as CMFL
    from psofed.methods.etpsofed import Options as ETPSOFed
    from psofed.methods.fedavg import Options as FedAvg
    from psofed.methods.fedprox import Options as FedProx
    from psofed.methods.fedscr import Options as FedSCR
    from psofed.methods.local import Options as Local
    from psofed.methods.local import Options as LocalOnly
    from psofed.methods.memofed import Options as MemoFed
    from psofed.methods.onlinefed import Options as OnlineFed
    from psofed.methods.paofed import Options as PAOFed
    from psofed.methods.pdlms import Options as PdLMS
    from psofed.methods.pdrls import Options as PdRLS
    from psofed.methods.periodic import Options as Periodic
    from psofed.methods.psofed import Options as PSOFed
    from psofed.methods.psorls import Options as PSORLS
    from psofed.methods.qsgd import Options as QSGD
    from psofed.methods.quantised import Options as Quantised
    from psofed.methods.raw import Options as Raw
    from psofed.methods.sketch import Options as Sketch
    from psofed.methods.structured import Options as Structured
    from psofed.methods.topk import Options as TopK
    from psofed.policies.fedcs import Options as FedCSPolicy
    from psofed.policies.folb import Options as FOLBPolicy
    from psofed.policies.importance import Options as ImportancePolicy
    from psofed.policies.optimal import Options as OptimalPolicy
    from psofed.privacy.settings import Privacy as Privacy
    from psofed.sample_checks.none import Options as NoneCheck
    from psofed.sample_checks.outliers import Options as OutliersCheck
    from psofed.sample_checks.range import Options as RangeCheck
    from psofed.simulate.montecarlo import Interrupted as Interrupted
    from psofed.simulate.montecarlo import finished_runs as finished_runs
    from psofed.simulate.montecarlo import run as run
    from psofed.streams.change import Options as ChangeStream
    from psofed.streams.drift import Options as DriftStream
    from psofed.streams.function import Options as Stream
    from psofed.streams.iid import Options as IIDStream
    from psofed.streams.paper import Options as PaperStream
    from psofed.streams.table import Options as TableStream
    from psofed.theory.prediction import Prediction as Prediction
    from psofed.theory.prediction import curves as predict_curves
    from psofed.theory.prediction import renamed as predict


def __getattr__(name: str) -> Any:
    if name in _OLD:
        warn(f"psofed.{name} is now psofed.{_OLD[name]}", DeprecationWarning, stacklevel=2)
        name = _OLD[name]
    if name not in _HOMES | _RENAMED:
        raise AttributeError(f"module 'psofed' has no attribute {name!r}")
    module, _, attribute = (_HOMES | _RENAMED)[name].partition(":")
    return getattr(import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted(__all__)
