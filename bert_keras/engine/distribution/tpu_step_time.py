"""The time of a training step on a TPU, predicted from the program of its compiler and the figures of its maker."""

import collections
import math
import re
import typing
from collections.abc import Iterator
from typing import Any


class Chip(typing.NamedTuple):
    """The peak speeds of a chip by its maker, and the memory that a program may use by its compiler."""

    memory: float  # bytes
    products: float  # floating-point operations of bfloat16 numbers in a second
    memory_speed: float  # bytes in a second
    exchange_speed: float  # bytes in a second that a chip sends to others


# Source: https://cloud.google.com/tpu/docs/v5e and https://cloud.google.com/tpu/docs/v6e
CHIPS = {
    "v5e": Chip(15.75 * 2**30, 197e12, 819e9, 1600e9 / 8),
    "v6e": Chip(31.24 * 2**30, 918e12, 1640e9, 3584e9 / 8),
}
# The number of products of bfloat16 numbers for a product of this precision on JAX.
PASSES = {"float32": 6, "tf32": 3, "bfloat16": 1}
# The bytes that each of n chips sends, as a share of the bytes of the result.
_SENT = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "all-gather": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "reduce-scatter": lambda n: n - 1,
    "collective-permute": lambda n: 1,
}


class Cost(typing.NamedTuple):
    """The time and memory of a step on a chip."""

    operations: float
    accessed: float  # bytes
    sent: float  # bytes
    exchanges: dict[str, int]  # numbers by kind


def cost_of(analysis: dict[str, float], program: str, state: float, num_cores: int, num_parts: int) -> Cost:
    """Returns the `Cost` of a compiled step, given its analysis, its text and the bytes of weights and moments.

    The analysis counts a loop once: the first part of a batch and one of the others. The update of the weights, which
    comes once, reads and writes them and the moments, and reads the gradients.
    """
    update = 7 / 3 * state
    operations, accessed = analysis["flops"], analysis["bytes accessed"]
    if num_parts > 1:
        operations, accessed = operations * num_parts / 2, update + max(0, accessed - update) * num_parts / 2
    exchanges, sent = collections.Counter(), 0
    for exchange, num_bytes, times in exchanges_of(program, num_parts - 1):
        exchanges[exchange] += times
        sent += times * num_bytes * _SENT[exchange](num_cores)
    return Cost(operations, accessed, sent, dict(exchanges))


def exchanges_of(program: str, num_rounds: int) -> Iterator[tuple[str, int, int]]:
    """Yields the exchanges between chips in the text of a program: kind, bytes of the result, times.

    Those in a loop come `num_rounds` times: only the loop over the parts of a batch has any.
    """
    found, called, entry, name = collections.defaultdict(list), collections.defaultdict(list), "", ""
    for line in program.splitlines():
        if start := re.match(r"(ENTRY )?%?([\w.-]+) .*\{$", line):
            name = start[2]
            entry = name if start[1] else entry
        elif match := re.search(rf" = (.*?) ({'|'.join(_SENT)})(?:-done)?\(", line):
            found[name].append((match[2], sum(map(_num_bytes, re.findall(r"(\w+)\[([\d,]*)\]", match[1])))))
        called[name] += re.findall(r"(\w+)=%?([\w.-]+)", line)

    def walk(name: str, times: int) -> Iterator[tuple[str, int, int]]:
        yield from ((exchange, size, times) for exchange, size in found[name])
        for role, other in called[name]:
            if other in called and other != name:
                yield from walk(other, times * num_rounds if role == "body" else times)

    return walk(entry, 1)


def _num_bytes(shaped: tuple[str, str]) -> int:
    kind, sizes = shaped
    bits = re.search(r"\d+", kind)
    return math.prod(int(size) for size in sizes.split(",") if size) * int(bits[0] if bits else 8) // 8


def predict(cost: Cost, settings: dict[str, Any]) -> list[str]:
    """Returns the time of a step by the figures of the chip, a list of lines."""
    chip, passes, batch_size = CHIPS[settings["tpu"]], PASSES[settings["precision"]], settings["train_batch_size"]
    speeds = chip.products / passes, chip.memory_speed, chip.exchange_speed
    products, memory, exchange = (
        1e3 * number / speed for number, speed in zip((cost.operations, cost.accessed, cost.sent), speeds, strict=True)
    )
    shortest, longest = max(products, exchange), products + memory + exchange
    speeds = [f"{speed / 1e9:,.0f}" for speed in speeds]
    kinds = ", ".join(f"{number} {name}" for name, number in cost.exchanges.items()) or "none"
    kind = "rows" if settings["pack"] else "examples"
    return [
        "predicted for a core by the figures of its maker; nobody has run the step on one:",
        f"  {products:.2f} ms for {cost.operations / 1e9:,.1f} GFLOP at {speeds[0]} GFLOP/s",
        f"  {memory:.2f} ms for {cost.accessed / 1e9:,.2f} GB at {speeds[1]} GB/s, less what stays on the chip",
        f"  {exchange:.2f} ms for {cost.sent / 1e9:,.3f} GB sent at {speeds[2]} GB/s; exchanges: {kinds}",
        f"a step in {shortest:.2f} to {longest:.2f} ms: "
        f"{1e3 * batch_size / longest:,.0f} to {1e3 * batch_size / shortest:,.0f} {kind}/s",
    ]
