"""The numbers that /metrics shows, in the format of Prometheus."""

from collections.abc import Sequence

import prometheus_client

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_OF_BATCH = ("model", "task", "length")


class Metrics:
    """The metrics of one server, in their own registry. `length` is the class of lengths of sequences, in tokens."""

    def __init__(self) -> None:
        self.registry = registry = prometheus_client.CollectorRegistry()

        def histogram(
            name: str, meaning: str, labels: Sequence[str], buckets: Sequence[float] = _SECONDS
        ) -> prometheus_client.Histogram:
            return prometheus_client.Histogram(f"bert_{name}", meaning, labels, registry=registry, buckets=buckets)

        self.request_seconds = histogram("request_seconds", "Time of a request.", (*_OF_BATCH, "status"))
        self.queue_seconds = histogram("queue_seconds", "Time that a sequence waits for its batch.", _OF_BATCH)
        self.inference_seconds = histogram("inference_seconds", "Time of the network for a batch.", _OF_BATCH)
        self.batch_fill = histogram("batch_fill", "Sequences of a batch / the most it can have.", _OF_BATCH, _SHARES)
        self.tokens = prometheus_client.Counter(
            "bert_tokens", "Tokens that the network has read, without padding.", ("model", "task"), registry=registry
        )
        self.cut_texts = prometheus_client.Counter(
            "bert_cut_texts",
            "Texts that lost a part, because the model takes fewer tokens.",
            ("model", "task"),
            registry=registry,
        )
        self.failed_versions = prometheus_client.Gauge(
            "bert_failed_versions",
            "Versions that cannot be served; GET /models has the reasons.",
            ("model",),
            registry=registry,
        )
        self.rejections = prometheus_client.Counter(
            "bert_rejections", "Requests without an answer, by status.", ("status",), registry=registry
        )
        self.admitted = prometheus_client.Gauge(
            "bert_requests_admitted", "Requests that wait or are being answered.", registry=registry
        )

    def exposed(self) -> bytes:
        """Returns all metrics as text."""
        return prometheus_client.generate_latest(self.registry)
