"""A model as one C99 header: no allocation, no dependency but math.h."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psofed.tables.export.portable import SCALED, InputEntry, Portable, short


def render(model: Portable, name: str = "model") -> bytes:
    """The header; all its names begin with `name`."""
    n = identifier(name)
    parts = [_comment(model, n), _arrays(model, n), _predict(model, n)]
    if model.raw:
        parts.append(_raw(model, n))
    guard, text = f"{n.upper()}_H", "\n".join(parts)
    return f"{text.replace('@GUARD@', guard)}\n#endif /* {guard} */\n".encode("ascii")


def identifier(text: str) -> str:
    """What C takes as the beginning of a name.

    >>> identifier("my model-2"), identifier("2nd")
    ('my_model_2', 'm2nd')
    """
    name = re.sub(r"[^A-Za-z0-9]", "_", text).strip("_") or "model"
    return f"m{name}" if name[0].isdigit() else name


def _comment(model: Portable, n: str) -> str:
    width = max(len(e.name) for e in model.entries)
    lines = [
        f"{n}.h: {model.output}",
        "",
        *model.about.splitlines(),
        "y = centre + scale * (w^T z(x) + line^T (x, 1)), z(x) = sqrt(2/D) cos(W x + b),"
        f" in units of {model.target}.",
        "",
        f"float {n}_predict(const float *x): x as it is scaled",
        *(f"  x[{i}]  {e.name:<{width}}  {_made(e)}" for i, e in enumerate(model.entries)),
    ]
    if model.raw:
        lines += ["", f"float {n}_predict_raw(const float *raw): values as in the table"]
        lines += arguments(model)
    return comment(lines)


def arguments(model: Portable) -> list[str]:
    """A line about each value that a caller gives."""
    width, lines = max(len(e.name) for e in model.entries), []
    for i, a in enumerate(model.arguments):
        texts = [e.text for e in model.entries if e.kind == "category" and e.column == a.name]
        codes = "".join(f", {j} for {text}" for j, text in enumerate(texts))
        code = f"; as a number: -1 if not known{codes}" if a.is_text else ""
        lines.append(f"  raw[{i}]  {a.name:<{width}}  {a.meaning}{code}")
    return lines


def comment(lines: list[str]) -> str:
    """Lines of text as a comment."""
    return "/* " + "\n * ".join(_safe(line) for line in lines) + "\n */"


def _made(entry: InputEntry) -> str:
    """How an entry of x is made."""
    if entry.kind in SCALED:
        return f"(value - {entry.centre!r}) / {entry.scale!r}, clipped at +-{entry.clip:g}"
    made = {"missing": f"1 if {entry.column} is missing, else 0", "scaled": "",
            "category": f"1 if {entry.column} is {entry.text!r}, else 0"}  # fmt: skip
    return made.get(entry.kind, "as it is")


def _safe(text: str) -> str:
    """A text that a comment may have: ASCII, without what ends it, begins one, or is a trigraph."""
    plain = text.encode("ascii", "backslashreplace").decode().replace("\\", "/")
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").rstrip()


def _arrays(model: Portable, n: str) -> str:
    dim, taps = model.features.W.shape
    up = n.upper()
    rows = ",\n".join(f"    {{{_numbers(row)}}}" for row in model.features.W)
    # The factor of z is in the weights: sqrt(2/D) once, not D times at each prediction.
    weights = model.w.astype(np.float64) * np.sqrt(2 / dim)
    return f"""#ifndef @GUARD@
#define @GUARD@

#include <math.h>

#define {up}_INPUTS {taps}
#define {up}_RAW_INPUTS {len(model.arguments)}
#define {up}_DIM {dim}

static const float {n}_W[{dim}][{taps}] = {{
{rows}
}};
static const float {n}_b[{dim}] = {{{_numbers(model.features.b)}}};
static const float {n}_w[{dim}] = {{{_numbers(weights)}}}; /* times sqrt(2/D) */
static const float {n}_line[{taps + 1}] = {{{_numbers(model.line)}}};
static const float {n}_target_centre = {_number(model.centre)};
static const float {n}_target_scale = {_number(model.scale)};
"""


def _numbers(values: NDArray[Any]) -> str:
    return ", ".join(_float(v) for v in short(np.asarray(values)))


def _number(value: float) -> str:
    return _float(short(np.array([value]))[0])


def _float(value: float) -> str:
    return f"{value!r}f"  # Python writes a point or an exponent, as C needs before the f


def _predict(model: Portable, n: str) -> str:
    up = n.upper()
    return f"""/* The prediction for scaled inputs x. */
static inline float {n}_predict(const float *x)
{{
    float sum = {n}_line[{up}_INPUTS];
    int i, j;
    for (j = 0; j < {up}_INPUTS; j++)
        sum += {n}_line[j] * x[j];
    for (i = 0; i < {up}_DIM; i++) {{
        float phase = {n}_b[i];
        for (j = 0; j < {up}_INPUTS; j++)
            phase += {n}_W[i][j] * x[j];
        sum += {n}_w[i] * cosf(phase);
    }}
    return {n}_target_centre + {n}_target_scale * sum;
}}
"""


def _raw(model: Portable, n: str) -> str:
    return f"""{inputs(model, n)}
/* The prediction for values as they are in the table. */
static inline float {n}_predict_raw(const float *raw)
{{
    float x[{n.upper()}_INPUTS];
    {n}_inputs(raw, x);
    return {n}_predict(x);
}}
"""


def inputs(model: Portable, n: str) -> str:
    """x from the values of a table."""
    place = {a.name: i for i, a in enumerate(model.arguments)}
    hot: dict[str, int] = {}  # how many texts of a category have come
    lines = []
    for i, e in enumerate(model.entries):
        raw = f"raw[{place[e.column if e.kind in ('missing', 'category') else e.name]}]"
        blank = "0.0f" if e.blank == 0 else "NAN"
        value = raw
        if e.kind in SCALED:
            value = f"{n}_scaled({raw}, {e.centre!r}, {e.scale!r}, {e.clip!r}, {blank})"
        elif e.kind == "missing":
            value = f"{n}_missing({raw}) ? 1.0f : 0.0f"
        elif e.kind == "category":
            code = hot[e.column] = hot.get(e.column, -1) + 1
            value = f"isnan({raw}) ? {blank} : {raw} == {code}.0f ? 1.0f : 0.0f"
        lines.append(f"    x[{i}] = {value};")
    body = "\n".join(lines)
    marked = "".join(f" || value == {_number(marker)}" for marker in model.markers)
    return f"""/* Whether there is no value. */
static inline int {n}_missing(float value)
{{
    return isnan(value){marked};
}}

/* (value - centre) / scale, clipped; `missing` where there is no value. */
static inline float {n}_scaled(float value, double centre, double scale, double most,
                               float missing)
{{
    double x = ((double)value - centre) / scale;
    if ({n}_missing(value))
        return missing;
    return (float)(x < -most ? -most : x > most ? most : x);
}}

/* x, from values as they are in the table. */
static inline void {n}_inputs(const float *raw, float *x)
{{
{body}
}}
"""
