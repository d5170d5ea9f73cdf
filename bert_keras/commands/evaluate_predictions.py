"""Scores the predictions of any program against the correct answers.

    python evaluate_predictions.py --task=squad --data_file=dev-v2.0.json --predictions_file=predictions.json
    python evaluate_predictions.py --task=mrpc --data_file=MRPC/dev.tsv --predictions_file=MRPC.tsv
    python evaluate_predictions.py --task=ner --predictions_file=test_predictions.txt --json
    python evaluate_predictions.py --task=minimal_pairs --data_file=blimp --predictions_file=scores.jsonl
    python evaluate_predictions.py dev-v2.0.json predictions.json

The last form is that of SQuAD's official scripts; for MLQA's, add the language as a third argument. Metrics go to
standard output, everything else to standard error.
"""

import functools
import json
from collections.abc import Sequence
from typing import Any

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import as_program, given_flags, parse, require
from bert_keras.mistakes import Mistake
from bert_keras.storage.checks import check_ending, check_output_file
from bert_keras.storage.writing import write_text
from bert_keras.tasks.benchmarks.glue import GLUE_TASKS
from bert_keras.tasks.benchmarks.scoring import score_entities, score_glue, score_squad
from bert_keras.tasks.question_answering.metrics import LANGUAGES
from bert_keras.tasks.tables.minimal_pairs import score_minimal_pairs

# Flags that apply to one task only.
_FLAGS_OF_TASKS = {
    **dict.fromkeys(("na_prob_file", "na_prob_thresh", "version_2_with_negative", "answer_language"), "squad"),
    **dict.fromkeys(("word_column", "tag_column"), "ner"),
    "xnli_language": "xnli",
}
_FILES = {
    "data_file": "Correct answers, in the file of the dataset. For ner: only if the predictions file lacks them.",
    "predictions_file": "Required. The predictions.",
    "na_prob_file": "SQuAD 2.0: odds of no answer (null_odds.json); adds the best thresholds to the scores.",
    "output_file": "Also write the scores to this file; a name with .json gets one JSON object.",
}
_COLUMNS = {
    "word_column": "NER: column of the words, from 0, or from the end as -2. If not given: the first without numbers.",
    "tag_column": "NER: column of the correct tags. If not given: the last, or without --data_file the one before it.",
}
# The flags of the official SQuAD 2.0 script.
_OFFICIAL_FLAGS = {
    **dict.fromkeys(("-o", "--out-file"), "--output_file"),
    **dict.fromkeys(("-n", "--na-prob-file"), "--na_prob_file"),
    **dict.fromkeys(("-t", "--na-prob-thresh"), "--na_prob_thresh"),
}


def define_flags() -> flags.FlagValues:
    """Returns the flags of this program."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    tasks = f"squad, ner, minimal_pairs, {', '.join(GLUE_TASKS)}"
    flags.DEFINE_string("task", None, f"Required. Task of the predictions: {tasks}.", **define)
    for name, meaning in _FILES.items():
        flags.DEFINE_string(name, None, meaning, **define)
    flags.DEFINE_float("na_prob_thresh", 1.0, "SQuAD 2.0: above this value, an answer counts as empty.", **define)
    flags.DEFINE_bool(
        "version_2_with_negative", None, "Score as SQuAD 2.0, or as 1.1. If not given: decided from the data.", **define
    )
    language = "SQuAD: compare answers by MLQA's rules for this language. If not given: by SQuAD's."
    flags.DEFINE_enum("answer_language", None, LANGUAGES, language, **define)
    for name, meaning in _COLUMNS.items():
        flags.DEFINE_integer(name, None, meaning, **define)
    flags.DEFINE_string("xnli_language", "zh", "XNLI: language to score.", **define)
    flags.DEFINE_bool("json", False, "Write the scores as one JSON object.", **define)
    return values


def main(argv: list[str]) -> None:
    """Runs the program, given its name and its flags."""
    flag_values = define_flags()
    names = [argument.split("=", 1) for argument in argv]
    argv = ["=".join([_OFFICIAL_FLAGS.get(name) or name, *value]) for name, *value in names]
    arguments = parse(flag_values, argv, __doc__, takes_texts=True)
    if arguments:
        _take_official_arguments(flag_values, arguments)
    task, given = (flag_values.task or "").lower(), given_flags(flag_values)
    require(flag_values, ("task", "predictions_file") if task == "ner" else ("task", "data_file", "predictions_file"))
    for name, task_of_flag in _FLAGS_OF_TASKS.items():
        if task != task_of_flag and name in given:
            raise Mistake("--{} is for --task={}; leave it out for --task={}", name, task_of_flag, flag_values.task)
    if flag_values.output_file:
        inputs = {name: flag_values[name].value for name in ("data_file", "predictions_file", "na_prob_file")}
        check_output_file(flag_values.output_file, "output_file", inputs)
        check_ending(flag_values.output_file, "output_file", (".json",))
    open_console(stderr=True)

    data_file, predictions_file = flag_values.data_file, flag_values.predictions_file
    if task == "squad":
        metrics, report = score_squad(
            data_file,
            predictions_file,
            version_2_with_negative=flag_values.version_2_with_negative,
            na_prob_file=flag_values.na_prob_file,
            na_prob_thresh=flag_values.na_prob_thresh if "na_prob_thresh" in given else None,
            language=flag_values.answer_language,
        )
    elif task == "minimal_pairs":
        metrics, report = score_minimal_pairs(data_file, predictions_file)
    elif task == "ner":
        metrics, report = score_entities(data_file, predictions_file, flag_values.word_column, flag_values.tag_column)
    else:
        if task not in GLUE_TASKS:
            # A task may have several names; show one of them.
            scored = dict.fromkeys(task.name for task in GLUE_TASKS.values() if "dev" in task.files)
            raise Mistake("--task={} is not one of squad, ner, minimal_pairs, {}", flag_values.task, ", ".join(scored))
        metrics, report = score_glue(GLUE_TASKS[task], data_file, predictions_file, flag_values.xnli_language)

    as_json = json.dumps(metrics, indent=2) + "\n"
    answer = as_json if flag_values.json else report
    if file := flag_values.output_file:
        write_text(file, as_json if file.endswith(".json") else answer)
    print(answer, end="", flush=True)


def _take_official_arguments(flag_values: flags.FlagValues, arguments: Sequence[str]) -> None:
    """Sets flags from positional arguments, as the official scripts of SQuAD and MLQA do."""
    names = ("data_file", "predictions_file", "answer_language")
    given = given_flags(flag_values)
    if given & {"task", *names} or not 2 <= len(arguments) <= 3:
        raise Mistake(
            '"{}" is not a flag; give only flags, or only the answer file and the predictions file as for '
            "SQuAD's official script (--helpfull lists all flags)",
            arguments[0],
        )
    if len(arguments) == 3 and arguments[2] not in LANGUAGES:
        raise Mistake(
            'the third argument, "{}", is not one of MLQA\'s languages {}', arguments[2], ", ".join(LANGUAGES)
        )
    flag_values.task = "squad"
    for name, argument in zip(names, arguments, strict=False):
        setattr(flag_values, name, argument)
    if "json" not in given:
        flag_values.json = True  # as the official scripts do


run_program = functools.partial(as_program, main, writes_texts=True)
