"""The public contract: all that a method, policy, attack, defence, check, learner or stream needs.

What is written outside of this package imports from here and from NumPy alone, as `psofed.rivals`
does. Whatever else the package has may change without notice.

A method is a class `Options` and a class `Method`, derived from `Plain` or from one of the bases
below; its handlers get stacks of clients and messages with one row for each of them. The first
lines of `federation/contract.py` have the handlers and the order of their calls, and
docs/extend.md builds one step by step. A learner derives from `Learner`. For the other
kinds of plug-in, `policies`, `attacks`, `defences`, `checks` and `streams` are the modules that say
what one has to have, with the classes that it derives from.
"""

from psofed.core import coding, equations, native, payload
from psofed.core.schedule import Ahead, Groups, Indices, Rotating, Schedule, UniformCohorts
from psofed.core.seeds import Seeds, subsets
from psofed.errors import InputError
from psofed.federation import policy as policies
from psofed.federation.bases import (
    SCHEMES,
    Anchored,
    Compressed,
    LocalSteps,
    Paced,
    Windows,
    at_least_one,
    steps,
)
from psofed.federation.contract import (
    ABSENT,
    BEFORE,
    Array,
    Delivery,
    Message,
    OneClient,
    Plain,
    State,
    Task,
    exchanged,
    nothing,
    rows,
    same,
    sized,
    some,
    whole,
)
from psofed.federation.learners.contract import Learner, Line
from psofed.federation.options import LOST, Coded, Common, Knob, Learns, geometric
from psofed.federation.schema import public as public
from psofed.federation.schema import require
from psofed.federation.stage import Stage
from psofed.methods import centralised
from psofed.methods.psofed import Method as PartialSharing
from psofed.stages import code as codes
from psofed.stages.attacks import contract as attacks
from psofed.stages.checks import contract as checks
from psofed.stages.code import Coded as CodedValues
from psofed.stages.defences import contract as defences
from psofed.streams import contract as streams

__all__ = [  # noqa: RUF022
    # Messages, and the states that handlers change.
    "ABSENT", "Array", "Indices", "Message", "State", "nothing", "rows", "same", "some", "whole",
    # The options of a method: the keys of its table, and what it declares.
    "LOST", "SCHEMES", "Coded", "Common", "InputError", "Knob", "Learns", "Paced", "Windows",
    "at_least_one", "geometric", "require", "steps",
    # What a method derives from, and what stands around one.
    "Anchored", "Compressed", "LocalSteps", "OneClient", "PartialSharing", "Plain", "centralised",
    "CodedValues", "Stage",
    # What its handlers ask for.
    "BEFORE", "Delivery", "Task", "exchanged", "sized",
    # Draws that both ends make alike: of windows, of cohorts, of anything else.
    "Ahead", "Groups", "Rotating", "Schedule", "Seeds", "UniformCohorts", "subsets",
    # Equations, for stacks of clients; compiled ones; bytes.
    "coding", "codes", "equations", "native", "payload",
    # What a learner derives from, and the contracts of other plug-ins.
    "Learner", "Line", "attacks", "checks", "defences", "policies", "streams",
]  # fmt: skip
