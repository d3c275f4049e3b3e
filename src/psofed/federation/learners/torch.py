"""Any PyTorch module as a learner: its parameters as one flat vector, of which methods share any M.

The module is made by a function of yours, `make(taps)`, and takes x [n, L] to [n] or [n, 1]. Its
parameters start as it draws them, under a seed of the run. It has to be a function of x and of its
parameters alone, because nothing else is shared: modules with dropout, with running statistics or
with frozen parameters are refused. It is computed in the precision of the experiment, whatever that
of its parameters, one sample at a time or a batch of clients through `torch.func.vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from psofed.core.seeds import Seeds
from psofed.errors import InputError
from psofed.federation import plugins, schema
from psofed.federation.foreign import call, place, title
from psofed.federation.learners.contract import Array, Learner

Make = Callable[..., Any]
PROBES = 3  # samples on which a module is tried
CLOSE = 1e-4  # how well its outputs have to agree in float32, relative to the largest


@dataclass(frozen=True)
class Options(Learner):
    """The function that makes the module, as "./net.py:make", "my_package.net:make" or itself."""

    name: ClassVar[str] = "torch"
    packages: ClassVar[tuple[str, ...]] = ("torch",)
    steps: ClassVar[tuple[float, ...]] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4)
    module: str | Make  # the function that makes the module, e.g. "./net.py:make"

    def __post_init__(self) -> None:
        make = self.module
        if isinstance(make, str):  # found once: workers have no folder to search
            make = plugins.attribute(make, "module")
            object.__setattr__(self, "module", make)
        if not callable(make):
            found = f"is {make!r}, not a function"
            raise InputError("module", found, "give a function that makes an nn.Module")

    @classmethod
    def readers(cls) -> Mapping[str, schema.Reader]:
        """In a file, the function is a text."""
        return {"module": lambda key, value: schema.convert(key, value, str)}

    def describe(self) -> str:
        return f"torch {title(self.module)}"

    def to_table(self) -> dict[str, Any]:
        """The function by its place."""
        return {"module": place("module", self.module)}

    def check(self) -> None:
        """What the function makes is tried when its size is asked for."""

    def size(self, taps: int, features: int) -> int:
        """The number of its parameters."""
        return _bound(self.module, taps, "float32").dim

    def initial(self, seeds: Seeds, taps: int, dim: int) -> Array:
        """As the module draws them, under a seed of the run."""
        seed = int(seeds.world.generator("learner").integers(2**62))
        return _initial(self.module, taps, seed)

    def predict(self, w: Array, z: Array) -> Array:
        """The output of the module."""
        return _bound(self.module, z.shape[-1], w.dtype.name).values(w, z)

    def direction(self, w: Array, z: Array) -> Array:
        """The gradient, by automatic differentiation."""
        return _bound(self.module, z.shape[-1], w.dtype.name).slopes(w, z)


def _torch() -> Any:
    try:
        return import_module("torch")
    except ImportError:
        found = "is 'torch', but PyTorch is not installed"
        raise InputError("name", found, "pip install '.[torch]' in a clone") from None


@lru_cache(16)
def _initial(make: Make, taps: int, seed: int) -> Array:
    torch = _torch()
    parameters = _made(make, taps, seed).parameters()
    w: Array = torch.nn.utils.parameters_to_vector(p.detach().double() for p in parameters).numpy()
    return w


def _made(make: Make, taps: int, seed: int) -> Any:
    """A module of the user's function; a mistake in it is told as theirs."""
    torch = _torch()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = call("module", make, taps, right="it is called with the number of inputs")
        lazy = torch.nn.parameter.UninitializedTensorMixin  # of unknown shape, until it sees inputs
        if isinstance(module, torch.nn.Module) and any(
            isinstance(p, lazy) for p in module.parameters()
        ):
            call("module", module, torch.zeros(2, taps), right="it is called with x [n, L]")
        return module


@lru_cache(16)
def _bound(make: Make, taps: int, dtype: str) -> _Module:
    return _Module(make, taps, dtype)


class _Module:
    """A module of one precision, as functions of a flat vector."""

    def __init__(self, make: Make, taps: int, dtype: str) -> None:
        self.make, self.torch = make, _torch()
        self.dtype = getattr(self.torch, dtype)
        self.module = _made(make, taps, 0)
        self._check(taps)
        self.module = self.module.to(self.dtype).eval()
        named = list(self.module.named_parameters())
        self.names, self.shapes = [n for n, _ in named], [p.shape for _, p in named]
        self.sizes = [p.numel() for _, p in named]
        self.dim = sum(self.sizes)
        self.slope = self.torch.func.grad(self._one)
        self.batched = self._vmaps(taps)

    def _refuse(self, found: str, right: str) -> None:
        raise InputError("module", f"is {title(self.make)}, {found}", right)

    def _check(self, taps: int) -> None:
        """Refuse what is not a function of x and of its parameters alone."""
        torch, module = self.torch, self.module
        if not isinstance(module, torch.nn.Module):
            found = f"which returns {type(module).__name__}, not an nn.Module"
            self._refuse(found, "return the module")
        parameters = list(module.parameters())
        if not parameters:
            self._refuse("whose module has no parameters", "give it some to learn")
        if not all(p.is_floating_point() for p in parameters):
            self._refuse("whose module has parameters that are not real numbers", "use floats")
        if not all(p.requires_grad for p in parameters):
            found = "whose module has frozen parameters, which would be shared and never learned"
            self._refuse(found, "make them buffers: register_buffer, with values that are given")
        other = dict(_made(self.make, taps, 1).named_buffers())
        for name, buffer in module.named_buffers():
            if not torch.equal(buffer, other[name]):
                found = f"whose buffer {name!r} is drawn at random, and is not shared"
                self._refuse(found, "give it fixed values, or make it a parameter")
        self._try(taps)

    def _try(self, taps: int) -> None:
        torch = self.torch
        x = torch.from_numpy(np.random.default_rng(0).standard_normal((PROBES, taps)))
        module = self.module.double()
        kept = {name: b.clone() for name, b in module.named_buffers()}
        with torch.no_grad():
            right = "it is called with x [n, L]"
            training = [call("module", module.train(), x, right=right) for _ in range(2)]
            rest = [call("module", module.eval(), p, right=right) for p in (x, *x.split(1))]
        shape = tuple(getattr(training[0], "shape", ()))
        if shape not in ((PROBES,), (PROBES, 1)):
            found = f"whose module takes x {[PROBES, taps]} to {list(shape)}"
            self._refuse(found, "return one number for each sample, [n] or [n, 1]")
        if any(not torch.equal(b, kept[name]) for name, b in module.named_buffers()):
            found = "whose module changes its buffers as it runs, as batch normalisation does"
            self._refuse(found, "use another layer, such as LayerNorm: buffers are not shared")
        for other in (training[1], rest[0], torch.cat(rest[1:])):
            if not torch.allclose(training[0], other, CLOSE, CLOSE, equal_nan=True):
                found = "whose output depends on chance, on training or on the rest of a batch"
                self._refuse(found, "leave out layers such as dropout and batch normalisation")

    def _vmaps(self, taps: int) -> bool:
        """Whether several clients can be computed at once; some modules do not allow it."""
        w = self.torch.zeros(2, self.dim, dtype=self.dtype)
        try:
            self.torch.func.vmap(self.slope)(w, self.torch.ones(2, taps, dtype=self.dtype))
        except (RuntimeError, ValueError, TypeError):
            return False
        return True

    def _call(self, w: Any, x: Any) -> Any:
        parts = w.split(self.sizes)
        named = {n: p.view(s) for n, p, s in zip(self.names, parts, self.shapes, strict=True)}
        return self.torch.func.functional_call(self.module, named, (x,)).reshape(len(x))

    def _one(self, w: Any, x: Any) -> Any:
        return self._call(w, x[None])[0]

    def values(self, w: Array, x: Array) -> Array:
        """The outputs: [...] of w [..., D] and x [..., L]."""
        with self.torch.no_grad():
            if w.ndim > 1 or not self.batched:  # its `if` may ask about a whole batch
                return self._each(self._one, w, x)
            rows = self._tensor(x.reshape(-1, x.shape[-1]))
            return self._array(self._call(self._tensor(w), rows), x.shape[:-1])

    def slopes(self, w: Array, x: Array) -> Array:
        """The derivatives by w: [..., D]."""
        if w.ndim == x.ndim == 1:
            return self._array(self.slope(self._tensor(w), self._tensor(x)), w.shape)
        return self._each(self.slope, w, x)

    def _each(self, function: Any, w: Array, x: Array) -> Array:
        """The same function of every model and its sample."""
        head = np.broadcast_shapes(w.shape[:-1], x.shape[:-1])
        ws, xs = (np.broadcast_to(a, (*head, a.shape[-1])).reshape(-1, a.shape[-1]) for a in (w, x))
        rows = self._tensor(ws), self._tensor(xs)
        if self.batched:
            found = self.torch.func.vmap(function)(*rows)
        else:
            found = self.torch.stack([function(*row) for row in zip(*rows, strict=True)])
        return self._array(found, (*head, *found.shape[1:]))

    def _tensor(self, array: Array) -> Any:
        return self.torch.from_numpy(np.array(array)).to(self.dtype)

    def _array(self, tensor: Any, shape: Any) -> Array:
        found: Array = tensor.detach().to(self.dtype).numpy().reshape(shape)
        return found
