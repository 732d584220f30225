"""The counters of the application server, as Prometheus' text."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from benchlab.workloads.tpcc.transactions.contract import REQUESTS

#: Outcomes of a transaction: answered; rolled back on purpose; refused because too many waited; its
#: form was malformed; it failed in the database, or was repeated too often.
OUTCOMES = ("ok", "rolled_back", "refused", "malformed", "error")

#: Upper bounds of buckets in seconds: 5 and 20 are the limits of answers, 80 that of a deferred
#: delivery.
_RESPONSE_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1, 2, 5, 10, 20, 40, 80),
)


class Metrics:
    """All counters."""

    def __init__(self, database: str) -> None:
        """Start all counters at zero.

        Args:
            database: name on the page of what answers: an engine, or :data:`null.NULL`.
        """
        self._registry = CollectorRegistry()
        own = {"namespace": "tpcc_was", "registry": self._registry}
        known = Gauge("database", 'What answers; "null" is no database.', ["name"], **own)
        known.labels(database).set(1)
        outcomes = Counter("transactions", "Transactions by outcome.", ["type", "outcome"], **own)
        seconds = Histogram(
            "response_seconds",
            "Time from a form's last byte to the first of its answer, of answered forms.",
            ["type"],
            buckets=_RESPONSE_S,
            **own,
        )
        repeats = Counter("repeats", "Repetitions that the database asked for.", ["type"], **own)
        # looked up once, not in every transaction
        self.outcomes = {
            (name, outcome): outcomes.labels(name, outcome)
            for name in REQUESTS
            for outcome in OUTCOMES
        }
        self.response = {name: seconds.labels(name) for name in REQUESTS}
        self.repeats = {name: repeats.labels(name) for name in REQUESTS}
        self.running = Gauge("pool_in_use", "Transactions that run.", **own)
        self.waiting = Gauge("queue_length", "Transactions that wait to run.", **own)
        self.wait = Histogram(
            "pool_wait_seconds", "Time that transactions waited to run.", buckets=_RESPONSE_S, **own
        )
        self.connections_lost = Counter(
            "connections_lost", "Connections that were lost in a transaction.", **own
        )
        self.deliveries_queued = Gauge(
            "deliveries_queued", "Deliveries that are queued, and not yet begun.", **own
        )
        self.delivery = Histogram(
            "delivery_seconds",
            "Time from queueing a delivery to its completion.",
            buckets=_RESPONSE_S,
            **own,
        )

    def page(self) -> bytes:
        """Return all numbers."""
        return generate_latest(self._registry)
