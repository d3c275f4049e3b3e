"""The figures of a dashboard for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from psofed.extras import need
from psofed.fleet.alarms import ALARMS
from psofed.fleet.dashboard.board import COLUMNS, STATES

CLIENTS = 200  # with more, there are no series by client: each would be a dozen

Family = tuple[str, str, Any, tuple[str, ...]]  # name, meaning, a value or values by label, labels


def exposition(state: dict[str, Any]) -> tuple[bytes, str]:
    """The text of /metrics and its content type, from all that a board shows."""
    need("prometheus_client", "deploy", "metrics")
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    def collect() -> Iterator[Any]:
        names = {key: str(state["about"][key]) for key in ("run", "method", "clock")}
        yield InfoMetricFamily("psofed_run", "What is deployed.", names)
        found = [(GaugeMetricFamily, _gauges(state)), (CounterMetricFamily, _counters(state))]
        if len(state["clients"]) <= CLIENTS:
            by = {name: _column(state, name) for name in COLUMNS}
            found += [(GaugeMetricFamily, _client_gauges(state, by))]
            found += [(CounterMetricFamily, _client_counters(by))]
        for kind, families in found:
            for name, text, values, labels in families:
                family = kind(f"psofed_{name}", text, labels=labels)
                for label, value in (values if labels else {(): values}).items():
                    key = label if isinstance(label, tuple) else (label,)
                    family.add_metric([str(part) for part in key], float(value))
                yield family

    registry = cast(CollectorRegistry, SimpleNamespace(collect=collect))
    return generate_latest(registry), CONTENT_TYPE_LATEST


def _column(state: dict[str, Any], name: str) -> dict[int, Any]:
    """One figure of each client of which it is known."""
    j = COLUMNS.index(name)
    return {k: row[j] for k, row in state["clients"].items() if row[j] is not None}


def _gauges(state: dict[str, Any]) -> Iterator[Family]:
    yield "round", "The round that is open.", state["n"], ()
    yield "server_start", "How often this server was started.", state["start"], ()
    if state["mse"] is not None:
        yield "mse_db", "Test error of the global model, in dB.", state["mse"], ()
    if state["closed"] is not None:
        text = "When the last round was committed."
        yield "last_commit_timestamp_seconds", text, state["closed"], ()
    yield "broker_connected", "1 if connected to the broker.", state["connected"], ()
    on = {name: name in state["alarms"] for name in ALARMS}
    yield "alarm", "1 if the alarm is on.", on, ("alarm",)
    text = "Whole days until a certificate ends: the own one, the broker's, the authority's."
    yield "certificate_days", text, state["certificates"], ("whose",)
    states = Counter(row[0] for row in state["clients"].values())
    yield "clients", "Clients, by state.", {one: states[one] for one in STATES}, ("state",)
    text = "Members that are not asked until they are heard again: they do not answer."
    yield "asleep", text, state["asleep"], ()
    if state["epsilon"] is not None:
        text = "Privacy budget: the most that a client can have spent of it, and all of it."
        spent = dict(zip(("spent", "budget"), state["epsilon"], strict=True))
        yield "epsilon", text, spent, ("what",)
    text = "Clients whose answers are not folded in."
    yield "quarantined", text, len(state["quarantined"]), ()
    if state["seen"] is not None:
        db, spread, clients = state["seen"]
        yield "told_error_db", "Error as clients tell it, in dB: the median over clients.", db, ()
        yield "told_error_spread_db", "The median distance of clients to it, in dB.", spread, ()
        yield "told_error_clients", "How many clients tell it.", clients, ()


def _counters(state: dict[str, Any]) -> Iterator[Family]:
    text = "Bytes of frames in rounds that were closed."
    yield "bytes", text, {way: state[way] for way in ("up", "down")}, ("direction",)
    text = "Reconnections to the broker since this start."
    yield "broker_reconnects", text, state["reconnects"], ()
    counts = state["counts"]
    yield "questions", "Members of cohorts that were asked.", counts["asked"], ()
    outcomes = {name: counts[name] for name in ("accepted", "refused", "lost")}
    yield "answers", "Outcomes of questions to members.", outcomes, ("outcome",)
    outcomes = {name: counts[name] for name in ("accepted", "repeated", "rejected")}
    yield "messages", "Outcomes of messages received.", outcomes, ("outcome",)
    yield "refused", "Messages that were refused, by reason.", state["reasons"], ("reason",)
    text = "Messages that were not read since this start."
    yield "ignored", text, state["ignored"], ("reason",)


def _client_gauges(state: dict[str, Any], by: dict[str, dict[int, Any]]) -> Iterator[Family]:
    lags = {k: state["n"] - 1 - n for k, n in by["last"].items() if n >= 0}
    gone = {k: one == "gone" for k, one in by["state"].items()}
    for name, text, values in (
        ("last_contact_timestamp_seconds", "When the client was last heard.", by["contact"]),
        ("lag_rounds", "Rounds closed since an answer of the client was last accepted.", lags),
        ("gone", "1 if the client does not answer.", gone),
        ("coverage", "Share of labels inside their interval of 0.9, as it tells.", by["coverage"]),
        ("score", "How far out its changes are; honest ones are below 1.", by["score"]),
        ("clipped", "Share of its answers that were clipped, lately.", by["clipped"]),
        ("quarantined", "1 if its answers are not folded in.", by["quarantined"]),
        ("told_error_db", "Its error as it tells it, in dB.", by["error"]),
    ):
        yield f"client_{name}", text, values, ("client",)


def _client_counters(by: dict[str, dict[int, Any]]) -> Iterator[Family]:
    text = "Messages of the client that were dropped since this start."
    yield "client_dropped", text, by["dropped"], ("client",)
    text = "Samples that the client has refused or clipped, as it tells it."
    yield "client_refused_samples", text, by["unlearned"], ("client",)
    outcomes = ("accepted", "refused", "lost")
    answers = {(k, name): count for name in outcomes for k, count in by[name].items()}
    yield "client_answers", "Outcomes of questions to it.", answers, ("client", "outcome")
