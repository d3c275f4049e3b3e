"""What goes wrong with samples, by kind: a line for the first, then one a minute with the count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

MINUTE = 60.0  # seconds between two lines about one kind


@dataclass
class Tally:
    """How many there were of each kind."""

    say: Callable[[str], None]
    counts: Counter[str] = field(default_factory=Counter)
    _new: Counter[str] = field(default_factory=Counter)  # of which nothing was said yet
    _last: dict[str, tuple[float, str]] = field(default_factory=dict)  # when, and the last text

    def add(self, kind: str, text: str) -> None:
        """One more."""
        self.counts[kind] += 1
        self._new[kind] += 1
        when, _ = self._last.get(kind, (-MINUTE, ""))
        self._last[kind] = when, text
        self.look(kind)

    def look(self, *kinds: str, last: bool = False) -> None:
        """Say what is due; at the end all that was not said yet."""
        for kind in kinds or list(self._new):
            when, text = self._last[kind]
            new, all = self._new[kind], self.counts[kind]
            if new and (last or monotonic() >= when + MINUTE):
                more = f", {new} of them since the last such line" if all > new > 1 else ""
                self.say(f"Warning: {text}, {all} so far{more}")
                self._last[kind] = monotonic(), text
                del self._new[kind]

    def in_words(self) -> str:
        """All kinds: "3 malformed, 1 from the future"."""
        return ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.counts.items()))
