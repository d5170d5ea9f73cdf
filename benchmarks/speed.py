"""Shared code of the speed benchmarks: batches, alternating runs, the machine's peak, and the table.

One process times several programs in turns, so that a slow minute of the machine affects all of them.
"""

import os
import statistics
import time

import numpy as np
from absl import flags

from benchmarks.machine import describe_machine, peak_speed, use_cpu
from bert_keras.cli.flags import parse
from bert_keras.mistakes import Mistake
from bert_keras.modeling import BertConfig
from bert_keras.modeling.config import released_names

# The maximum number of predictions by sequence length, as in the original BERT.
PREDICTIONS = {128: 20, 512: 77}


def define_flags():
    """Returns the flags that the speed benchmarks share."""
    values = flags.FlagValues()
    flags.DEFINE_list(
        "bert_config_file",
        ["uncased_L-4_H-256_A-4", "uncased_L-12_H-768_A-12"],
        "Sizes: released names, or bert_config.json files.",
        flag_values=values,
    )
    flags.DEFINE_list("num_tokens", ["128", "512"], "Lengths of the sequences.", flag_values=values)
    flags.DEFINE_integer("batch_size", 8, "Sequences in a batch.", flag_values=values)
    flags.DEFINE_list(
        "programs", [], "Programs to run, by the beginning of their names; none: all that fit.", flag_values=values
    )
    flags.DEFINE_integer("rounds", 5, "Number of turns of each program.", flag_values=values)
    flags.DEFINE_float("seconds", 5.0, "Minimum duration of a turn, in seconds.", flag_values=values)
    return values


def compare(argv, description, make_programs, operations):
    """Runs a benchmark: prints a table for each size and length.

    `make_programs` is a function of a BertConfig and a batch. It returns a dict of functions that make programs for
    `take_turns`. `operations` returns the number of operations of a call, from config and batch.
    """
    values = define_flags()
    parse(values, argv, description)
    use_cpu()
    print_machine(" ".join(argv), ("tensorflow", "keras", "torch", "transformers", "keras-hub"))
    for name in values.bert_config_file:
        config = read_config(name)
        for num_tokens in map(int, values.num_tokens):
            batch = make_batch(config, values.batch_size, num_tokens)
            makers = make_programs(config, batch)
            chosen = [program for program in makers if program.startswith(tuple(values.programs or ("",)))]
            if not chosen:
                raise Mistake("--programs={} does not begin any of {}", ",".join(values.programs), ", ".join(makers))
            made = {program: makers[program]() for program in chosen}
            times = take_turns(made, values.rounds, values.seconds)
            peaks = {precision: peak_speed(precision) for precision in ("float32", "bfloat16")}
            print(f"{name}, length {num_tokens}, batch {values.batch_size}:\n")
            print_table(times, values.batch_size, operations(config, batch), peaks)
            print(flush=True)


def read_config(name):
    """Returns the BertConfig of a released name or of a file."""
    return BertConfig.from_name(name) if name in released_names() else BertConfig.from_json_file(name)


def make_batch(config, batch_size, num_tokens):
    """Makes pre-training examples without padding, a dict of arrays for `modeling.PretrainingLoss`."""
    random = np.random.default_rng(0)
    num_predictions = PREDICTIONS.get(num_tokens, max(1, round(0.15 * num_tokens)))
    shape, predictions = (batch_size, num_tokens), (batch_size, num_predictions)
    positions = [np.sort(random.choice(num_tokens, num_predictions, replace=False)) for _ in range(batch_size)]
    return {
        "input_ids": random.integers(1, config.vocab_size, shape).astype(np.int32),
        "input_mask": np.ones(shape, np.int32),
        "segment_ids": np.broadcast_to(np.arange(num_tokens) >= num_tokens // 2, shape).astype(np.int32),
        "masked_lm_positions": np.array(positions, np.int32),
        "masked_lm_ids": random.integers(1, config.vocab_size, predictions).astype(np.int32),
        "masked_lm_weights": np.ones(predictions, np.float32),
        "next_sentence_labels": random.integers(0, 2, (batch_size, 1)).astype(np.int32),
    }


def encoder_operations(config, batch):
    """Returns the number of multiplications and additions in the products of one forward pass of the encoder."""
    batch_size, num_tokens = batch["input_ids"].shape
    hidden, inner = config.hidden_size, config.intermediate_size
    per_token = 4 * hidden**2 + 2 * hidden * inner + 2 * num_tokens * hidden
    return 2 * batch_size * num_tokens * config.num_hidden_layers * per_token


def pretraining_operations(config, batch):
    """Returns the number of operations of one pre-training step, which counts as three forward passes."""
    hidden = config.hidden_size
    masked_lm = 2 * batch["masked_lm_ids"].size * (hidden**2 + hidden * config.vocab_size)
    return 3 * (encoder_operations(config, batch) + masked_lm)


def take_turns(programs, rounds, seconds):
    """Times programs in turns; returns a list for each, with the seconds of a call in each round.

    A program is a function without arguments that processes one batch. A turn takes at least `seconds` and one call.
    """
    for program in programs.values():  # warm-up: traces, compiles, fills caches
        program()
        program()
    times = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            started, calls = time.perf_counter(), 0
            while calls == 0 or time.perf_counter() - started < seconds:
                program()
                calls += 1
            times[name].append((time.perf_counter() - started) / calls)
    return times


def print_table(times, batch_size, operations, peaks):
    """Prints a Markdown table: examples/s, their range, the ratio to the fastest peer, and the share of the peak.

    `times` is the result of `take_turns`; names end in the precision. `peaks` has the `peak_speed` of each precision.
    """
    medians = {name: statistics.median(values) for name, values in times.items()}
    peers = [value for name, value in medians.items() if not name.startswith("bert-keras")]
    print("| | examples/s | lowest to highest | to the fastest peer | share of the peak |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, values in times.items():
        rate, slowest, fastest = (_rounded(batch_size / value) for value in (medians[name], max(values), min(values)))
        ratio = f"{min(peers) / medians[name]:.2f}" if peers else ""
        share = f"{operations / medians[name] / peaks[name.rsplit(' ', 1)[1]]:.0%}"
        print(f"| {name} | {rate} | {slowest} to {fastest} | {ratio} | {share} |")


def _rounded(rate):
    """Returns a number with three significant digits, or more if it is at least 1,000, as a str."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def print_machine(command, packages):
    """Prints the command, the machine, the versions and the load."""
    print(f"Command: `python {command}`\n")
    print(f"Machine: {describe_machine(packages)}")
    print(f"Load before: {', '.join(f'{load:.1f}' for load in os.getloadavg())} (1, 5, 15 minutes)\n")
