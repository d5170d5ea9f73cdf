"""The numbers that /metrics shows, in the format of Prometheus."""

import functools

import prometheus_client

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_MODEL_LABELS = ("model", "task")
_BATCH_LABELS = (*_MODEL_LABELS, "length")


class Metrics:
    """The metrics of one server, in their own registry. `length` is the class of lengths of sequences, in tokens."""

    def __init__(self) -> None:
        self.registry = registry = prometheus_client.CollectorRegistry()
        histogram = functools.partial(prometheus_client.Histogram, registry=registry, buckets=_SECONDS)
        counter = functools.partial(prometheus_client.Counter, registry=registry)
        gauge = functools.partial(prometheus_client.Gauge, registry=registry)
        self.request_seconds = histogram("bert_request_seconds", "Time of a request.", (*_BATCH_LABELS, "status"))
        self.queue_seconds = histogram("bert_queue_seconds", "Time that a sequence waits for its batch.", _BATCH_LABELS)
        self.inference_seconds = histogram("bert_inference_seconds", "Time of the network for a batch.", _BATCH_LABELS)
        filled = "Sequences of a batch / the most it can have."
        self.batch_fill = histogram("bert_batch_fill", filled, _BATCH_LABELS, buckets=_SHARES)
        self.tokens = counter("bert_tokens", "Tokens that the network has read, without padding.", _MODEL_LABELS)
        cut = "Texts that lost a part, because the model takes fewer tokens."
        self.cut_texts = counter("bert_cut_texts", cut, _MODEL_LABELS)
        failed = "Versions that cannot be served; GET /models has the reasons."
        self.failed_versions = gauge("bert_failed_versions", failed, ("model",))
        self.rejections = counter("bert_rejections", "Requests without an answer, by status.", ("status",))
        self.admitted = gauge("bert_requests_admitted", "Requests that wait or are being answered.")

    def exposed(self) -> bytes:
        """Returns all metrics as text."""
        return prometheus_client.generate_latest(self.registry)
