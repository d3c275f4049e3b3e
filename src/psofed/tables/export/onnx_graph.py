"""A model as an ONNX graph in float32, from the columns of a table to the units of the target.

    scaled  = Max(Min(((values - high) - low) / scale, c), -c)    centre = high + low in float32
    flags   = IsNaN(values) or a marker
    hot     = OneHotEncoder(texts)
    x       = Concat(scaled, flags, hot, calendar)
    phase   = Gemm(x, W, b)
    z       = Mul(Cos(phase), sqrt(2/D))
    y       = MatMul(z, w) + Gemm(x, line, constant), then Mul by scale and Add of the centre

Gemm, Cos, Mul and MatMul are the kernel.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from psofed.extras import need, versions
from psofed.tables.export.portable import SCALED, InputEntry, Portable, entry

OPSET, ML_OPSET, IR = 17, 3, 8  # of 2022: old enough for the runtimes in use
ROWS = "rows"  # the name of the batch dimension


def render(model: Portable, name: str = "model") -> bytes:
    """The file, checked by onnx itself."""
    onnx = need("onnx", "onnx", "ONNX files")
    made = _Graph(onnx, model).finish(name)
    onnx.checker.check_model(made, full_check=True)
    data: bytes = made.SerializeToString(deterministic=True)
    return data


class _Graph:
    """Nodes and constants of a graph as they are added."""

    def __init__(self, onnx: Any, model: Portable) -> None:
        self.onnx, self.model = onnx, model
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        # Names of columns are free: what is inside has a prefix that none of them has.
        self.prefix = "psofed/"
        while any(a.name.startswith(self.prefix) for a in model.arguments):
            self.prefix += "/"

    def constant(self, name: str, value: Any) -> str:
        """A constant of the graph; texts and numbers."""
        array = np.asarray(value)
        array = array.astype(np.float32) if array.dtype.kind == "f" else array
        self.constants.append(self.onnx.numpy_helper.from_array(array, self.prefix + name))
        return self.prefix + name

    def node(self, kind: str, inputs: list[str], name: str, output: str = "", **more: Any) -> str:
        """A node with one output, whose name it returns."""
        output = output or self.prefix + name
        made = self.onnx.helper.make_node(kind, inputs, [output], name=self.prefix + name, **more)
        self.nodes.append(made)
        return output

    def finish(self, name: str) -> Any:
        """The model."""
        helper, model = self.onnx.helper, self.model
        x, order = self._inputs()
        self._kernel(x, order)
        output = helper.make_tensor_value_info(
            model.output, self.onnx.TensorProto.FLOAT, [ROWS, 1], f"in units of {model.target}"
        )
        graph = helper.make_graph(
            self.nodes, name, self.inputs, [output], self.constants, doc_string=model.about
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        made = helper.make_model(
            graph, producer_name="psofed", producer_version=versions()["psofed"], ir_version=IR,
            opset_imports=opsets, doc_string=model.about,
        )  # fmt: skip
        helper.set_model_props(made, self._about())
        return made

    def _about(self) -> dict[str, str]:
        """What the metadata of the model say."""
        model = self.model
        return {
            "made_by": model.made, "model": model.whose, "target": model.target,
            "inputs": json.dumps({a.name: a.meaning for a in model.arguments}),
            "x": json.dumps([entry(e) for e in model.entries]),
            "tick": json.dumps(model.tick), "label_delay": str(model.label_delay),
        }  # fmt: skip

    def _inputs(self) -> tuple[str, list[int]]:
        """x, and the positions in the recipe of its entries."""
        groups = [self._plain, self._scaled, self._flags, self._hot, self._calendar]
        parts = [part for group in groups for part in group()]
        order = [i for _, where in parts for i in where]
        names = [name for name, _ in parts]
        return (self.node("Concat", names, "x", axis=1) if len(names) > 1 else names[0]), order

    def _of(self, *kinds: str) -> list[int]:
        return [i for i, e in enumerate(self.model.entries) if e.kind in kinds]

    def _input(self, name: str, width: int = 1, text: bool = False) -> str:
        proto = self.onnx.TensorProto
        meaning = {a.name: a.meaning for a in self.model.arguments}.get(name, "")
        kind = proto.STRING if text else proto.FLOAT
        info = self.onnx.helper.make_tensor_value_info(name, kind, [ROWS, width], meaning)
        self.inputs.append(info)
        return name

    def _joined(self, where: list[int], name: str) -> str:
        """Inputs of the graph side by side."""
        names = [self._input(self.model.entries[i].name) for i in where]
        return self.node("Concat", names, name, axis=1) if len(names) > 1 else names[0]

    def _plain(self) -> list[tuple[str, list[int]]]:
        where = self._of("scaled")
        return [(self._input("x", len(where)), where)] if where else []

    def _scaled(self) -> list[tuple[str, list[int]]]:
        where = self._of(*SCALED)
        if not where:
            return []
        entries = [self.model.entries[i] for i in where]
        self.values = self._joined(where, "values")
        centre = np.array([e.centre for e in entries])
        # A large centre has more digits than float32: with two numbers none is lost.
        high = centre.astype(np.float32)
        near = self.node("Sub", [self.values, self.constant("high", high)], "near")
        near = self.node("Sub", [near, self.constant("low", centre - high)], "deviation")
        scale = self.constant("scale", [e.scale for e in entries])
        most = np.array([e.clip for e in entries])
        ratio = self.node("Div", [near, scale], "ratio")
        below = self.node("Min", [ratio, self.constant("most", most)], "below")
        clipped = self.node("Max", [below, self.constant("least", -most)], "clipped")
        self.gone = self._missing(self.values)
        blank = self.constant("blank", [e.blank for e in entries])
        return [(self.node("Where", [self.gone, blank, clipped], "scaled"), where)]

    def _missing(self, values: str) -> str:
        """Where there is no value: NaN, or a number that means it."""
        gone = self.node("IsNaN", [values], "gone")
        for i, marker in enumerate(self.model.markers):
            hit = self.node("Equal", [values, self.constant(f"marker{i}", marker)], f"hit{i}")
            gone = self.node("Or", [gone, hit], f"gone_or_{i}")
        return gone

    def _flags(self) -> list[tuple[str, list[int]]]:
        where = self._of("missing")
        if not where:
            return []
        scaled = [self.model.entries[i].name for i in self._of(*SCALED)]
        columns = [scaled.index(self.model.entries[i].column) for i in where]
        places = self.constant("flagged", np.array(columns, np.int64))
        gone = self.node("Gather", [self.gone, places], "gone_flagged", axis=1)
        return [(self.node("Cast", [gone], "flags", to=self.onnx.TensorProto.FLOAT), where)]

    def _hot(self) -> list[tuple[str, list[int]]]:
        entries = self.model.entries
        columns = dict.fromkeys(entries[i].column for i in self._of("category"))
        groups = [[i for i in self._of("category") if entries[i].column == c] for c in columns]
        return [(self._one_hot(j, [entries[i] for i in w]), w) for j, w in enumerate(groups)]

    def _one_hot(self, j: int, entries: list[InputEntry]) -> str:
        """1 at the text; nowhere for a text that is not known; NaN for a missing one."""
        column = self._input(entries[0].column, text=True)
        hot = self._match(column, [e.text for e in entries], f"hot{j}")
        if entries[0].rule == "indicator":
            return hot
        one = self._match(column, list(self.model.absent), f"absent{j}")
        axis = self.constant(f"axis{j}", np.array([1], np.int64))
        count = self.node("ReduceSum", [one, axis], f"absences{j}", keepdims=1)
        gone = self.node("Cast", [count], f"gone{j}", to=self.onnx.TensorProto.BOOL)
        return self.node("Where", [gone, self.constant(f"nan{j}", np.nan), hot], f"known{j}")

    def _match(self, column: str, texts: list[str], name: str) -> str:
        flat = self.constant(f"{name}_shape", np.array([-1, len(texts)], np.int64))
        cells = self.node("OneHotEncoder", [column], f"{name}_cells", domain="ai.onnx.ml",
                          cats_strings=texts, zeros=1)  # fmt: skip
        return self.node("Reshape", [cells, flat], name)

    def _calendar(self) -> list[tuple[str, list[int]]]:
        where = self._of("calendar")
        return [(self._joined(where, "calendar"), where)] if where else []

    def _kernel(self, x: str, order: list[int]) -> None:
        """Eq. (2): y = w^T z(x), z = sqrt(2/D) cos(W x + b); then the units of the target."""
        model, cosines = self.model, self.model.features
        W = self.constant("W", cosines.W[:, order].T)
        phase = self.node("Gemm", [x, W, self.constant("b", cosines.b)], "phase")
        factor = self.constant("factor", np.sqrt(2 / cosines.dim))
        z = self.node("Mul", [self.node("Cos", [phase], "wave"), factor], "z")
        curve = self.node("MatMul", [z, self.constant("w", model.w[:, None])], "curve")
        slope = self.constant("slope", model.line[order][:, None])
        line = self.node("Gemm", [x, slope, self.constant("level", model.line[-1:])], "line")
        y = self.node("Add", [curve, line], "y")
        units = self.constant("target_scale", model.scale)
        y = self.node("Mul", [y, units], "deviation_of_target")
        centre = self.constant("target_centre", model.centre)
        self.node("Add", [y, centre], "prediction", model.output)
