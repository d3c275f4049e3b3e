"""The server: it invites a cohort, collects the answers and folds them into the global model."""

from __future__ import annotations

import numpy as np

from psofed.errors import InputError
from psofed.methods.contract import Message, Method


class RefusedError(ValueError):
    """An answer that is not folded in, and why; nothing has changed."""


class Server:
    """The handlers of the server. Nothing of a round counts until `commit`."""

    def __init__(self, method: Method) -> None:
        if method.policy is not None:
            found = f"is {method.policy.options.name}, which the messages have no place for"
            if method.policy.options.scores == "client":
                found = f"is {method.policy.options.name}, whose weights clients could choose"
            raise InputError("policy", found, "deploy the method without it")
        self.method = method
        self.state = method.server()
        self.n = 0
        self._answers: dict[int, bytes] = {}
        self._uploads: dict[int, Message] = {}

    def invite(self) -> dict[int, bytes]:
        """What goes down to each member of the cohort of this round."""
        messages = {int(k): self.method.download(self.state, int(k), self.n) for k in self.cohort}
        return {
            k: b"" if m is None else self.method.encode(m, up=False) for k, m in messages.items()
        }

    @property
    def cohort(self) -> list[int]:
        """S_n of this round."""
        return [int(k) for k in self.method.cohort(self.n, self.state)]

    def collect(self, k: int, n: int, answer: bytes) -> None:
        """Take one answer: checked whole, then kept. The first valid one wins."""
        if n != self.n or k not in self.cohort:
            raise RefusedError(
                f"client {k} is not asked in round {n}: the server is in round {self.n}"
            )
        if k in self._answers:
            if self._answers[k] != answer:
                raise RefusedError(f"client {k} answered round {n} twice, differently")
            return
        try:
            message = self.method.decode(answer, up=True) if answer else None
        except ValueError as error:
            raise RefusedError(f"client {k} sent {len(answer)} bytes: {error}") from None
        if message is not None and not np.isfinite(message).all():
            raise RefusedError(f"client {k} sent values that are not finite")
        self._answers[k], self._uploads[k] = answer, message

    def commit(self) -> None:
        """Close the round: fold in what arrived, in client order, divided by how many answered."""
        uploads = {k: self._uploads[k] for k in sorted(self._uploads)}
        if uploads:
            self.method.fold(self.state, self.n, uploads, dict.fromkeys(uploads, 1 / len(uploads)))
        self._answers, self._uploads = {}, {}
        self.n += 1
