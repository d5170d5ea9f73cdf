"""Asks a pre-trained model: fills in the [MASK]s of texts, judges pairs of texts, or scores texts.

    python predict.py --task=fill_mask --init_checkpoint=model "Paris is the [MASK] of France."
    python predict.py --task=next_sentence --init_checkpoint=model "He was hungry." "So he ate."
    python predict.py --task=score --init_checkpoint=model --input_file=sentences.txt --json

Texts are arguments, lines of --input_file, or lines of standard input. A pair is two arguments, or one line with a tab
between its texts. Answers go to standard output in the order of the texts, all else to standard error.
"""

import dataclasses
import json
import logging
import pathlib
import sys

from training.start import start_tensorflow

start_tensorflow()

from absl import flags

from prediction import FillMask, NextSentence, SentenceScorer
from prediction.sequences import LONG_CHOICES
from training.console import open_console
from training.flags import given_flags, parse, require, run_main

log = logging.getLogger("bert_keras")

_TASKS = {"fill_mask": FillMask, "next_sentence": NextSentence, "score": SentenceScorer}


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define = {"flag_values": values}
    flags.DEFINE_enum("task", None, list(_TASKS), "What is asked of the model.", **define)
    flags.DEFINE_string("init_checkpoint", None, "The model: folder of a checkpoint or run, or a checkpoint.", **define)
    flags.DEFINE_string("vocab_file", None, "The vocabulary; not given: vocab.txt beside the checkpoint.", **define)
    flags.DEFINE_string("bert_config_file", None, "The config; not given: the one beside the checkpoint.", **define)
    flags.DEFINE_bool("do_lower_case", None, "Lower-case texts; not given: as the model was trained.", **define)
    flags.DEFINE_string("input_file", None, "Text file, one text or pair a line.", **define)
    flags.DEFINE_bool("json", False, "Write each answer as a line of JSON.", **define)
    flags.DEFINE_integer("top_k", 5, "Guesses for each mask.", lower_bound=1, **define)
    flags.DEFINE_enum("long", "error", LONG_CHOICES, "What to do with texts too long for the model.", **define)
    flags.DEFINE_integer("batch_size", 16, "Sequences that are looked at together.", lower_bound=1, **define)
    return values


def main(argv):
    """Runs the program.

    Args:
        argv: list of str; the program's name, then its flags and texts.
    """
    flag_values = define_flags()
    arguments = parse(flag_values, argv, __doc__, takes_texts=True)
    require(flag_values, ("task", "init_checkpoint"))
    open_console(stderr=True)
    task = flag_values.task
    if "top_k" in given_flags(flag_values) and task != "fill_mask":
        raise ValueError(f"--top_k is of --task=fill_mask; leave it out for --task={task}")
    texts, sources = _read_texts(flag_values.input_file, arguments, task == "next_sentence")
    options = {"top_k": flag_values.top_k} if task == "fill_mask" else {}
    predictor = _TASKS[task](
        flag_values.init_checkpoint,
        batch_size=flag_values.batch_size,
        long=flag_values.long,
        vocab_file=flag_values.vocab_file,
        config_file=flag_values.bert_config_file,
        do_lower_case=flag_values.do_lower_case,
        **options,
    )
    for answer in predictor.answers(texts, sources):
        if flag_values.json:
            print(json.dumps(dataclasses.asdict(answer), ensure_ascii=False), flush=True)
        else:
            print(_SHOW[task](answer), flush=True)


def _read_texts(input_file, arguments, in_pairs):
    """Returns the texts, or pairs, and what to call each of them in an error."""
    if input_file and arguments:
        raise ValueError(f'there are both --input_file={input_file} and the text "{arguments[0]}"; give one of them')
    if arguments:
        if in_pairs and not any("\t" in argument for argument in arguments):
            return _pairs_of_arguments(arguments)
        lines = [(f"argument {number}", text) for number, text in enumerate(arguments, 1)]
    else:
        lines = _read_lines(input_file)
    if in_pairs:
        return [_pair(source, text) for source, text in lines], [source for source, _ in lines]
    return [text for _, text in lines], [source for source, _ in lines]


def _pairs_of_arguments(arguments):
    if len(arguments) % 2:
        raise ValueError(
            f"--task=next_sentence takes two texts for each pair, but {len(arguments)} were given; "
            "give an even number, or each pair as one argument with a tab between its texts"
        )
    pairs = list(zip(arguments[::2], arguments[1::2], strict=True))
    return pairs, [f"pair {number}" for number in range(1, len(pairs) + 1)]


def _pair(source, text):
    parts = text.split("\t")
    if len(parts) != 2:
        raise ValueError(f"{source} has {len(parts) - 1} tabs, but a pair is two texts with one tab between them")
    return tuple(parts)


def _read_lines(input_file):
    """Returns (source, text) of each line with text of a file, or of standard input without one."""
    if input_file:
        path = pathlib.Path(input_file)
        if not path.is_file():
            raise FileNotFoundError(f"--input_file={input_file} is not a file; give a text file, one text a line")
        name, content = input_file, path.read_bytes()
    elif sys.stdin.isatty():
        raise ValueError("there is no text: give it as an argument, in --input_file or on standard input")
    else:
        name, content = "standard input", sys.stdin.buffer.read()
    try:
        # Only these end a line: str.splitlines knows some characters more, which may stand within a text.
        lines = content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{name} line {line}: not UTF-8 (byte 0x{content[error.start]:02x}); save it as UTF-8"
        ) from None
    texts = [(f"{name} line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not texts:
        raise ValueError(f"{name} holds no text; give one text a line")
    num_blank = len(lines) - (not lines[-1]) - len(texts)
    if num_blank:
        log.info("%s: %d blank lines are passed over", name, num_blank)
    return texts


def _show_filled(answer):
    lines = [answer.text]
    for number, guesses in enumerate(answer.masks, 1):
        if len(answer.masks) > 1:
            lines.append(f"  [MASK] {number} of {len(answer.masks)}")
        width = max(len(guess.token) for guess in guesses)
        lines += [f"  {guess.probability:.4f}  {guess.token:<{width}}  {guess.sentence}" for guess in guesses]
    if len(answer.masks) > 1:
        lines.append(f"  all filled: {answer.best}")
    return "\n".join(lines)


def _show_pair(answer):
    return f"{answer.probability:.4f}  {answer.text_a}  ->  {answer.text_b}"


def _show_score(answer):
    tokens = " ".join(f"{score.token} {score.log_probability:.2f}" for score in answer.tokens)
    return f"{answer.log_probability:.4f}  perplexity {answer.perplexity:.4g}  {answer.text}\n  {tokens}"


_SHOW = {"fill_mask": _show_filled, "next_sentence": _show_pair, "score": _show_score}


def run_program():
    """Runs the program from the command line."""
    # Not every system writes UTF-8 into a file or a pipe by itself.
    sys.stdout.reconfigure(encoding="utf-8")
    sys.exit(run_main(main, sys.argv))


if __name__ == "__main__":
    run_program()
