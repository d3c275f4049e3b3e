"""JAX on the CPU: one compiled scan over the rounds, all clients and methods as one array."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

# Before JAX is imported: one thread, like everybody else.
os.environ.setdefault("NPROC", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np
from job import Array, Inputs, Windows

BLOCK = 8  # rounds whose features are computed at once; divides the number of rounds


def run(inputs: Inputs) -> Array:
    """The test error of each method before every round and after the last."""
    clients, dim = len(inputs.x), len(inputs.b)
    idle = [method for method in inputs.methods if method.idle]
    order = [*(m for m in inputs.methods if not m.idle), *idle]
    same = {(method.step, method.shift) for method in idle}
    assert (len(same), len(order)) == (1, len(idle) + 1), "written for the paper's job"
    step, shift = same.pop()
    masks = np.stack([dense(method, clients, dim) for method in idle], axis=1)
    x, y = np.swapaxes(inputs.x, 0, 1), inputs.y.T
    mse = simulate(
        x, y, inputs.W, inputs.b, inputs.cohorts.astype(np.int32), masks,
        inputs.x_test, inputs.y_test, step, shift,
    )  # fmt: skip
    back = [order.index(method) for method in inputs.methods]
    return np.asarray(mse)[:, back].T


def dense(method: Windows, clients: int, dim: int) -> Array:
    """S_{k,0} of all clients as truth values, written twice: [K, 2 D]; a slice of it is S_{k,n}."""
    mask = np.zeros((clients, dim), bool)
    rows = np.broadcast_to(method.start, (clients, method.shared))
    np.put_along_axis(mask, rows, True, axis=1)
    return np.hstack([mask, mask])


@partial(jax.jit, static_argnames=("step", "shift"))
def simulate(
    x: Any, y: Any, W: Any, b: Any, cohorts: Any, masks: Any, x_test: Any, y_test: Any,
    step: float, shift: int,
) -> Any:  # fmt: skip
    """All rounds. Local models are [K, method, D]: what a client exchanges lies together."""
    dim, count = len(b), masks.shape[1]
    scale = np.float32(np.sqrt(2 / dim))

    def features(x: Any) -> Any:
        return scale * jnp.cos(x @ W.T + b)

    def learn(w: Any, z: Any, y: Any) -> Any:
        return w + step * (y - w @ z)[..., None] * z

    def window(k: Any, n: Any) -> Any:
        begin = (k, 0, dim - shift * n % dim)
        return jax.lax.dynamic_slice(masks, begin, (1, count, dim))[0]

    def one_round(carry: Any, now: Any) -> Any:
        online, w, local = carry
        n, z, y, cohort = now
        # Slices instead of gather and scatter, which are slow on the CPU.
        for k in cohort:
            mixed = jnp.where(window(k, n), w, local[k])
            local = jax.lax.dynamic_update_index_in_dim(local, mixed, k, 0)
        local = jax.vmap(learn)(local, z, y)
        uploads = [jnp.where(window(k, n + 1), local[k], w) for k in cohort]
        updates = [learn(online, z[k], y[k]) for k in cohort]
        size = len(uploads)
        return (sum(updates) / size, sum(uploads) / size, local), jnp.vstack([online, w])

    def one_block(carry: Any, now: Any) -> Any:
        # Computed here, because inside a round XLA would recompute them for each use.
        n, x, y, cohort = now
        return jax.lax.scan(one_round, carry, (n, features(x), y, cohort))

    zeros = jnp.zeros((count, dim), x.dtype)
    local = jnp.zeros((x.shape[1], count, dim), x.dtype)
    rounds = (jnp.arange(len(x)), x, y, cohorts)
    blocks = [part.reshape(-1, BLOCK, *part.shape[1:]) for part in rounds]
    last, history = jax.lax.scan(one_block, (zeros[0], zeros, local), blocks)
    history = jnp.concatenate([history.reshape(-1, count + 1, dim), jnp.vstack(last[:2])[None]])
    z = features(x_test)
    R, r = z.T @ z / len(z), z.T @ y_test / len(z)
    return jnp.sum((history @ R) * history, axis=-1) - 2 * history @ r + jnp.mean(y_test**2)
