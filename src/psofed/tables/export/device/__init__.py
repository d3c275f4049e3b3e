"""A client for microcontrollers, in C and for MicroPython: its configuration, next to its code.

The device computes what the deployed client does, in float32; where that keeps samples until a
window comes, on a live clock, it waits for the next one instead. It has the features as constants:
at D = 200 and L = 4 these are 4 kB, less than the tables and the code that would draw them.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from itertools import chain
from typing import Any

import numpy as np

from psofed.core import payload
from psofed.core.features import Cosines
from psofed.core.schedule import Sequential
from psofed.errors import InputError
from psofed.extras import versions
from psofed.federation.contract import Array, Method
from psofed.federation.learners import lms, nlms
from psofed.federation.round import waits
from psofed.federation.stage import around, within
from psofed.fleet.lines.frames import FRAME, HEAD, MOST_PARTS, room
from psofed.fleet.protocol import signs
from psofed.fleet.protocol.deployment import Deployment
from psofed.methods import onlinefed, periodic, psofed
from psofed.stages.average import Average
from psofed.stages.checks import contract as checks
from psofed.stages.checks import outliers
from psofed.stages.checks import range as ranges
from psofed.stages.code import Rounded
from psofed.stages.defences.contract import Defended
from psofed.stages.mix import Mixed
from psofed.streams import table
from psofed.tables import export
from psofed.tables.export import c_header

# sin(2 pi s) = s P(s^2) for |s| <= 1/4, lowest power first, by Remez' exchange: error 3.3e-9, in
# float32 2.0e-7. The engine's has a term less, and three times the error.
SINE = (6.283185160089478, -41.3416550314166, 81.60100407328162, -76.54978229403771,
        39.53670606897415)  # fmt: skip
METHODS = psofed.Options, onlinefed.Options, periodic.Options
CODE = ("psofed.h", "psofed.h"), ("main.c", "main.c"), ("psofed.py", "micropython.py")
SERVED = (Average, Defended)  # stages at the server alone
RIGHT = "deploy a client of Python there"


def render(plan: Deployment, who: str, frame: int = FRAME) -> dict[str, bytes]:
    """The files of a device: its configuration, the client and a program to start from."""
    k = plan.names.number(who)
    if not 0 <= k < plan.experiment.clients:
        found, right = f"is {who}", f"use 0 to {plan.experiment.clients - 1}"
        raise InputError("--client", found, right)
    method = plan.device(measured=True)
    check = _check_of(plan, method)
    title = f"{plan.world.methods[0].title()}, L = {method.task.taps}, D = {method.task.dim}."
    about = [f"Client {who} of run {plan.deploy.run}: {title}",
             f"Made by psofed {versions()['psofed']}."]  # fmt: skip
    numbers = _numbers(plan, method, frame) | _check(check)
    first, numbers["SHIFT"] = _window(method, k)
    features = method.task.features
    assert isinstance(features, Cosines)
    constants = first, features.W / (2 * np.pi), features.b / (2 * np.pi)
    in_c = (
        [c_header.comment(about), "#include <stdint.h>"], _defined(numbers), _sine(method.task.dim),
        _constants(*constants), _inputs(plan, method),
    )  # fmt: skip
    in_python = [f"# {line}" for line in about], _assigned(numbers, *constants)
    made = {"config.h": in_c, "config.py": in_python}
    texts = {name: "\n".join(chain(*parts, [""])).encode("ascii") for name, parts in made.items()}
    return texts | {name: files(__package__).joinpath(file).read_bytes() for name, file in CODE}


def _check_of(plan: Deployment, method: Method) -> checks.SampleCheck | None:
    """The check of a method that a device can run; else an InputError says what is in the way."""
    found = None
    for stage in around(method):
        if isinstance(stage, checks.Check):
            found = stage.check
        elif not isinstance(stage, (*SERVED, Rounded, Mixed)):
            raise InputError("method", f"has the stage {type(stage).__name__}", RIGHT)
    options = plan.world.methods[0]
    if type(options) not in METHODS:
        names = " or ".join(one.name for one in METHODS)
        raise InputError("method", f"is {options.name}", f"use {names}, or {RIGHT}")
    features, learner = method.task.features, method.task.learner
    if not isinstance(features, Cosines):
        raise InputError("features", "are no plain cosines", RIGHT)
    if not isinstance(learner, lms.Options | nlms.Options):
        raise InputError("learner", f"is {learner.name}", f"use lms or nlms, or {RIGHT}")
    return found


def _numbers(plan: Deployment, method: Method, frame: int) -> dict[str, Any]:
    task, inner = method.task, within(method)
    if task.wire not in ("float16", "float32"):
        raise InputError("wire", f"is {task.wire}", "use float16 or float32")
    wire, shared = payload.size(task.wire), inner.entries(np.zeros(1, np.intp), 0, up=True).shape[1]
    said = signs.SIZE * plan.signed
    if frame < HEAD + 4 or task.dim * wire + said > MOST_PARTS * room(wire, frame):
        found = f"is {frame} bytes, in which {task.dim} values need more than {MOST_PARTS} frames"
        raise InputError("frame", found, "use larger ones")
    at_once = plan.deploy.live and inner.pace == 1 and not waits(method)
    learner = task.learner
    epsilon = learner.epsilon if isinstance(learner, nlms.Options) else 0.0
    return {
        "DIGEST": plan.digest, "DIM": task.dim, "INPUTS": task.taps,
        "SHARED": shared, "PACE": inner.pace, "WAIT": 0 if at_once else inner.pace, "SIGNS": said,
        "IDLE": int(inner.idle), "STEP": inner.step, "NORMALISED": int(epsilon > 0),
        "EPSILON": epsilon, "WIRE": wire, "FRAME": frame, "BOUND": min(plan.deploy.bound, 3e38),
        "MIX": int(any(isinstance(stage, Mixed) for stage in around(method))),
    }  # fmt: skip


def _sine(dim: int) -> Iterable[str]:
    """The polynomial, with the factor of z in it."""
    sine = np.sqrt(2 / dim) * np.array(SINE)
    return _defined({f"SINE{i}": float(value) for i, value in enumerate(sine)})


def _check(check: checks.SampleCheck | None) -> dict[str, Any]:
    """None, a range, or outliers."""
    if check is None:
        return {"CHECK": 0}
    if type(check) not in (ranges.Options, outliers.Options):
        raise InputError("check.name", f"is {check.name}", "use outliers, range or none")
    assert isinstance(check, ranges.Options)
    low, high = np.clip(check.ends, *np.finfo(np.float32).max * np.array([-1, 1])).tolist()
    found: dict[str, Any] = {"CHECK": 1, "LOW": low, "HIGH": high}
    if isinstance(check, outliers.Options):
        found |= {"CHECK": 2, "FACTOR": check.factor, "WINDOW": check.window,
                  "CLIP": int(check.action == "clip"), "REPEATS": check.repeats}  # fmt: skip
    return found


def _window(method: Method, k: int) -> tuple[Array, int]:
    """The first window of client k, and by how much the next one is shifted."""
    inner = within(method)
    dim, schedule = method.task.dim, getattr(inner, "schedule", None)
    first, tau = inner.entries(np.array([k]), 0, up=False)[0], 0
    if len(first) < dim:
        if not isinstance(schedule, Sequential):
            found = "are drawn in each round, or are groups"
            raise InputError("windows", found, 'use selection = "sequential", no groups')
        tau = schedule.shift % dim
    return first, tau


def _constants(first: Array, slope: Array, offset: Array) -> Iterable[str]:
    """The first window, and the features; the phases in turns."""
    dim = len(offset)
    steps = np.diff(first) % dim
    if (steps == 1).all():
        yield f"#define PSOFED_FIRST(j) ({first[0]}u + (j))"
    else:
        kind = "uint8_t" if dim <= 256 else "uint16_t"
        row = ", ".join(map(str, first))
        yield f"static const {kind} psofed_first[PSOFED_SHARED] = {{{row}}};"
        yield "#define PSOFED_FIRST(j) psofed_first[j]"
    rows = ",\n".join(f"    {{{_floats(row)}}}" for row in slope)
    yield f"static const float psofed_slope[PSOFED_DIM][PSOFED_INPUTS] = {{\n{rows}\n}};"
    yield f"static const float psofed_offset[PSOFED_DIM] = {{{_floats(offset)}}};"


def _assigned(numbers: dict[str, Any], first: Array, slope: Array, offset: Array) -> Iterable[str]:
    """The same as Python."""
    for name, value in numbers.items():
        yield f"{name} = {np.float32(value)!s}" if isinstance(value, float) else f"{name} = {value}"
    rows = ",\n".join(f"    ({', '.join(map(str, row))},)" for row in slope.astype(np.float32))
    yield f"FIRST = ({', '.join(map(str, first))},)"
    yield f"SLOPE = (\n{rows},\n)"
    yield f"OFFSET = ({', '.join(map(str, offset.astype(np.float32)))},)"


def _inputs(plan: Deployment, method: Method) -> Iterable[str]:
    """What scales the values of a table, and its label."""
    stream, features = plan.experiment.stream, method.task.features
    if not isinstance(stream, table.Options):
        return
    assert isinstance(features, Cosines)
    w, line = np.zeros(features.dim), np.zeros(stream.taps + 1)
    model = export.with_recipe(stream.recipe, "", features, w, line, stream.label_delay)
    unit = f"{len(model.arguments)} values; label and answer are in units of {model.target}"
    yield c_header.comment([f"psofed_inputs(raw, x): {unit}", *c_header.arguments(model)])
    yield "#include <math.h>"
    yield c_header.inputs(model, "psofed")
    centre, scale = _floats([model.centre, model.scale]).split(", ")
    yield f"""/* What is learned of a label, and an answer in its units. */
static inline float psofed_label(float y) {{ return (y - {centre}) / {scale}; }}
static inline float psofed_answer(float y) {{ return {centre} + {scale} * y; }}"""


def _defined(values: dict[str, Any]) -> Iterable[str]:
    for name, value in values.items():
        unsigned = "u" if name in ("DIGEST", "SHIFT") else ""
        text = _floats([value]) if isinstance(value, float) else f"{value}{unsigned}"
        yield f"#define PSOFED_{name} {text}"


def _floats(values: Array | list[float]) -> str:
    """Numbers as C reads them, to the bit.

    >>> _floats([0.1, 2, 1e-9])
    '0.1f, 2.0f, 1e-09f'
    """
    return ", ".join(f"{np.float32(v)!s}f" for v in values)
