"""The live view of a server: round, clients, counters, bytes and error, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from psofed.deploy.server_loop import ServerLoop
    from psofed.protocol.coordinator import Closed


NAMED = 5  # clients in quarantine that are listed


class View:
    """A table on standard error that is redrawn a few times a second."""

    def __init__(self, server: ServerLoop, targets: str) -> None:
        from rich.console import Console
        from rich.live import Live

        self.server, self.targets = server, targets
        self.rounds = self.up = self.down = 0
        self.mse: float | None = None
        self.live = Live(
            console=Console(stderr=True), get_renderable=self.render, refresh_per_second=4
        )

    def open(self) -> None:
        self.live.start()

    def close(self) -> None:
        self.live.stop()

    def update(self, closed: Closed, mse: float | None, counts: dict[str, int]) -> None:
        """After a commit."""
        self.rounds += 1
        self.up, self.down, self.mse = self.up + closed.up, self.down + closed.down, mse

    def _suspects(self) -> list[tuple[int, str]]:
        """The first few clients that are in quarantine, and why."""
        opinion = self.server.status.opinion
        if opinion is None:
            return []
        return [(int(k), opinion.reason[k]) for k in opinion.quarantined.nonzero()[0][:NAMED]]

    def render(self) -> Any:
        """What is shown now."""
        from rich.table import Table

        from psofed.protocol.reports import summary

        server, status = self.server, self.server.status
        counts = server.coordinator.server.ledger.counts
        table = Table.grid(padding=(0, 2))
        broker = "connected" if status.connected else f"no broker {status.trouble}"
        waiting = ", ".join(map(str, server.coordinator.missing[:12])) or "no client"
        table.add_row("round", str(server.coordinator.n), f"{broker}, waiting for {waiting}")
        table.add_row("clients", str(len(status.seen)), "heard since the start")
        outcomes = f"{counts['accepted']} / {counts['refused']} / {counts['lost']}"
        table.add_row("answers", outcomes, "accepted / refused / lost")
        table.add_row("bytes", f"{self.up} up, {self.down} down", "")
        if self.mse is not None:
            table.add_row("MSE", f"{self.mse:.2f} dB", f"on {self.targets}")
        if (seen := summary(server.coordinator.errors.copy().values())) is not None:
            text = f"as {seen.clients} clients see it, half of them within {seen.spread:.2f} dB"
            table.add_row("error", f"{seen.db:.2f} dB", text)
        for k, reason in self._suspects():
            table.add_row(f"client {k}", "quarantine", reason)
        for name, text in server.alarms.on.items():
            table.add_row("alarm", name, text)
        return table
