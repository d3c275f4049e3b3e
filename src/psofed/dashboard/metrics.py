"""The figures of a dashboard for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from psofed.dashboard.board import COLUMNS
from psofed.deploy.alarms import ALARMS
from psofed.extras import need

CLIENTS = 200  # with more, there are no series by client: each would be half a dozen
STATES = ("ok", "new", "waited", "gone", "back", "refused", "quarantined", "excluded")


def exposition(whole: dict[str, Any]) -> tuple[bytes, str]:
    """The text of /metrics and its content type, from all that a board shows."""
    need("prometheus_client", "deploy", "metrics")
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(whole))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Collector:
    """All families, once."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self.whole = whole

    def describe(self) -> list[Any]:
        return []

    def collect(self) -> Iterator[Any]:
        yield from _run(self.whole)
        yield from _answers(self.whole)
        yield from _alarms(self.whole)
        yield from _clients(self.whole["clients"])
        yield from _seen(self.whole)
        if len(self.whole["clients"]) <= CLIENTS:
            yield from _by_client(self.whole)


def _run(whole: dict[str, Any]) -> Iterator[Any]:
    from prometheus_client.core import InfoMetricFamily

    names = {key: str(whole["about"][key]) for key in ("run", "method", "clock")}
    yield InfoMetricFamily("psofed_run", "What is deployed.", names)
    yield _gauge("psofed_round", "The round that is open.", whole["n"])
    yield _gauge("psofed_server_start", "How often this server was started.", whole["start"])
    if whole["mse"] is not None:
        yield _gauge("psofed_mse_db", "Test error of the global model, in dB.", whole["mse"])
    if whole["closed"] is not None:
        text = "When the last round was committed."
        yield _gauge("psofed_last_commit_timestamp_seconds", text, whole["closed"])
    text = "Bytes of frames in rounds that were closed."
    both = {direction: whole[direction] for direction in ("up", "down")}
    yield _counter("psofed_bytes", text, both, "direction")
    yield _gauge("psofed_broker_connected", "1 if connected to the broker.", whole["connected"])
    text = "Reconnections to the broker since this start."
    yield _counter("psofed_broker_reconnects", text, whole["reconnects"])


def _answers(whole: dict[str, Any]) -> Iterator[Any]:
    counts = whole["counts"]
    yield _counter("psofed_questions", "Members of cohorts that were asked.", counts["asked"])
    outcomes = {name: counts[name] for name in ("accepted", "refused", "lost")}
    yield _counter("psofed_answers", "Outcomes of questions to members.", outcomes, "outcome")
    outcomes = {name: counts[name] for name in ("accepted", "repeated", "rejected")}
    yield _counter("psofed_messages", "Outcomes of messages received.", outcomes, "outcome")
    text = "Messages that were refused, by reason."
    yield _counter("psofed_refused", text, whole["reasons"], "reason")


def _alarms(whole: dict[str, Any]) -> Iterator[Any]:
    on = {name: name in whole["alarms"] for name in ALARMS}
    yield _gauge("psofed_alarm", "1 if the alarm is on.", on, "alarm")
    text = "Whole days until a certificate ends: the own one, the broker's, the authority's."
    yield _gauge("psofed_certificate_days", text, whole["certificates"], "whose")
    text = "Messages that were not read since this start."
    yield _counter("psofed_ignored", text, whole["ignored"], "reason")
    text = "Wrong tokens that the dashboard was given since this start."
    yield _counter("psofed_failed_logins", text, whole["logins"])


def _clients(rows: dict[int, list[Any]]) -> Iterator[Any]:
    states = Counter(row[0] for row in rows.values())
    counts = {state: states[state] for state in STATES}
    yield _gauge("psofed_clients", "Clients, by state.", counts, "state")


def _seen(whole: dict[str, Any]) -> Iterator[Any]:
    text = "Members that are not asked until they are heard again: they do not answer."
    yield _gauge("psofed_asleep", text, whole["asleep"])
    if whole["epsilon"] is not None:
        text = "Privacy budget: the most that a client can have spent of it, and all of it."
        values = dict(zip(("spent", "budget"), whole["epsilon"], strict=True))
        yield _gauge("psofed_epsilon", text, values, "what")
    text = "Clients whose answers are not folded in."
    yield _gauge("psofed_quarantined", text, len(whole["quarantined"]))
    if whole["seen"] is not None:
        db, spread, clients = whole["seen"]
        text = "Error as clients tell it, in dB: the median over clients."
        yield _gauge("psofed_told_error_db", text, db)
        text = "The median distance of clients to it, in dB."
        yield _gauge("psofed_told_error_spread_db", text, spread)
        yield _gauge("psofed_told_error_clients", "How many clients tell it.", clients)


def _by_client(whole: dict[str, Any]) -> Iterator[Any]:
    columns = {name: {} for name in COLUMNS}  # type: dict[str, dict[int, Any]]
    for k, row in whole["clients"].items():
        for name, value in zip(COLUMNS, row, strict=True):
            columns[name][k] = value
    text = "When the client was last heard."
    when = {k: value for k, value in columns["contact"].items() if value is not None}
    yield _gauge("psofed_client_last_contact_timestamp_seconds", text, when, "client")
    lags = {k: whole["n"] - 1 - n for k, n in columns["last"].items() if n >= 0}
    text = "Rounds that were closed since an answer of the client was last accepted."
    yield _gauge("psofed_client_lag_rounds", text, lags, "client")
    gone = {k: state == "gone" for k, state in columns["state"].items()}
    yield _gauge("psofed_client_gone", "1 if the client does not answer.", gone, "client")
    told = {k: share for k, share in columns["coverage"].items() if share is not None}
    text = "Share of the labels inside their interval of 0.9, as the client tells it."
    yield _gauge("psofed_client_coverage", text, told, "client")
    yield from _judged(columns)
    text = "Messages of the client that were dropped since this start."
    yield _counter("psofed_client_dropped", text, columns["dropped"], "client")
    from prometheus_client.core import CounterMetricFamily

    text = "Outcomes of questions to the client."
    family = CounterMetricFamily("psofed_client_answers", text, labels=["client", "outcome"])
    for outcome in ("accepted", "refused", "lost"):
        for k, count in columns[outcome].items():
            family.add_metric([str(k), outcome], count)
    yield family


def _judged(columns: dict[str, dict[int, Any]]) -> Iterator[Any]:
    """What the defence thinks of each client, and what clients tell of themselves."""
    for column, name, text in (
        ("score", "psofed_client_score", "How far out its changes are; honest ones are below 1."),
        ("clipped", "psofed_client_clipped", "Share of its answers that were clipped, lately."),
        ("quarantined", "psofed_client_quarantined", "1 if its answers are not folded in."),
        ("error", "psofed_client_told_error_db", "Its error as it tells it, in dB."),
    ):
        known = {k: value for k, value in columns[column].items() if value is not None}
        yield _gauge(name, text, known, "client")
    told = {k: count for k, count in columns["unlearned"].items() if count is not None}
    text = "Samples that the client has refused or clipped, as it tells it."
    yield _counter("psofed_client_refused_samples", text, told, "client")


def _gauge(name: str, text: str, values: Any, label: str = "") -> Any:
    from prometheus_client.core import GaugeMetricFamily

    return _filled(GaugeMetricFamily(name, text, labels=[label] if label else None), values)


def _counter(name: str, text: str, values: Any, label: str = "") -> Any:
    from prometheus_client.core import CounterMetricFamily

    return _filled(CounterMetricFamily(name, text, labels=[label] if label else None), values)


def _filled(family: Any, values: Any) -> Any:
    """One value, or values by label."""
    for key, value in values.items() if isinstance(values, dict) else [(None, values)]:
        family.add_metric([] if key is None else [str(key)], float(value))
    return family
