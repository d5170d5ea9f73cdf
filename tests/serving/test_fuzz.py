"""Random requests: no status 5xx, no request that hangs, no place that stays taken."""

import asyncio
import collections

import extra_serve  # noqa: F401
import fuzzed_requests
import requests
from running_server import wait_until

SAMPLES = [
    ("/v1/fill-mask", {"text": "paris is the [MASK] of france", "top_k": 2}),
    ("/v1/embeddings", {"input": ["he was hungry", "paris"], "model": "bert"}),
    ("/v1/next-sentence", {"items": [{"text_a": "he was hungry", "text_b": "so he ate"}]}),
    ("/v1/classify", {"items": [{"text": "he", "text_pair": "so"}], "model": "classification", "top_k": 1}),
    ("/rerank", {"query": "he", "texts": ["so he ate", "paris"], "raw_scores": True, "truncation_direction": "Right"}),
    ("/embed", {"inputs": ["he", "paris"], "normalize": True, "truncate": None}),
]


def test_random_requests_do_no_harm(server, caplog):
    def answers():
        return [requests.post(server.url + path, json=body, timeout=60).json() for path, body in SAMPLES]

    before = answers()
    attempts = [fuzzed_requests.make_attempt(number, SAMPLES, server.settings.max_body_bytes) for number in range(250)]
    outcomes = asyncio.run(fuzzed_requests.send_all(server.url, attempts, num_clients=16))
    found = collections.Counter(zip((attempt.kind for attempt in attempts), outcomes, strict=True))
    mistakes = [
        (attempt, outcome)
        for attempt, outcome in zip(attempts, outcomes, strict=True)
        if fuzzed_requests.is_mistake(outcome)
    ]
    assert not mistakes, mistakes[:3]
    assert {kind for kind, _ in found} == {*fuzzed_requests.KINDS}
    for kind, outcome in (("valid", "200"), ("huge", "413"), ("slow", "408"), ("broken", "400"), ("retyped", "422")):
        assert found[kind, outcome] > 0, found
    wait_until(lambda: server.metrics.admitted._value.get() == 0)
    assert answers() == before
    assert not [record for record in caplog.records if record.exc_info]


def test_a_mistake_of_the_server_is_recognised():
    outcomes = ("200", "hangs", "wrong: 500", "closed", "dropped")
    assert [fuzzed_requests.is_mistake(outcome) for outcome in outcomes] == [False, True, True, False, False]
