"""Scores tags of two files, or of one file with the gold tags and the predicted tags."""

import itertools
import json

from bert_keras.data_prep.corpus.sentences import is_json_lines
from bert_keras.data_prep.tasks.conll import read_conll
from bert_keras.data_prep.tasks.tag_schemes import NEEDED_TAGS, find_scheme, is_tag, to_bio
from bert_keras.evaluation.entities import entity_metrics, entity_metrics_by_type, entity_report


def score_entity_files(data_file, predictions_file, word_column=None, tag_column=None):
    """Scores tags like conlleval.

    Args:
        data_file: the sentences with gold tags, CoNLL columns or JSON lines; None: the other file also has these tags.
        predictions_file: the same sentences with the predicted tags in the last column, or as "predicted_tags".
        word_column: int, index of the column of the words; see `data_prep.tasks.conll.read_conll`.
        tag_column: int, index of the column of the gold tags; None: the last of data_file, or the second to last of
            predictions_file.

    Returns:
        (dict of metrics, with those of each type under `types`; the same as a table, str).

    Raises:
        FileNotFoundError: a file does not exist.
        ValueError: a file is unreadable, lacks tags, or has other words than the other file.
    """
    files = [file for file in (data_file, predictions_file) if file]
    if all(map(is_json_lines, files)) and (word_column, tag_column) != (None, None):
        raise ValueError(f"--word_column and --tag_column are for files of columns, not for JSON lines ({files[0]})")
    predicted = _read(predictions_file, word_column, -1, needs_tags=not (data_file and is_json_lines(predictions_file)))
    if data_file:
        gold = _read(data_file, word_column, tag_column)
        _check_same_words(gold, predicted)
    elif is_json_lines(predictions_file):
        gold = predicted
    else:
        if len(predicted[0].lines[0].split()) < 3:
            raise ValueError(
                f"{predictions_file} has no column of correct tags before the predicted ones; give them in --data_file"
            )
        gold = _read(predictions_file, word_column, -2 if tag_column is None else tag_column)
    keys = ["predicted_tags", "tags"] if data_file else ["predicted_tags"]
    truth, found = _tag_lists(gold, ["tags"]), _tag_lists(predicted, keys)
    figures, types = entity_metrics(truth, found), entity_metrics_by_type(truth, found)
    num_words = sum(map(len, truth))
    report = f"{entity_report(truth, found)}\naccuracy of the tags of {num_words:,} words: {figures['accuracy']:.4f}\n"
    return {"task": "ner", "sentences": len(truth), "words": num_words, **figures, "types": types}, report


def _read(path, word_column, tag_column, needs_tags=True):
    columns = {} if is_json_lines(path) else {"word_column": word_column, "tag_column": tag_column}
    return read_conll(path, needs_tags, **columns, is_bio=False)


def _check_same_words(gold, predicted):
    for right, other in itertools.zip_longest(gold, predicted):
        if right is None or other is None:
            more, fewer = (right, predicted[0]) if other is None else (other, gold[0])
            raise ValueError(
                f"{more.place()} begins a sentence that {fewer.path} lacks; give the predictions of this file"
            )
        for word, (expected, found) in enumerate(zip(right.words, other.words, strict=False)):
            if expected != found:
                raise ValueError(
                    f'{other.place(word)} has the word "{found}" where {right.place(word)} has "{expected}"; '
                    "both files need the same words"
                )
        if len(right.words) != len(other.words):
            raise ValueError(
                f"{other.place()} begins a sentence of {len(other.words)} words, which at {right.place()} has "
                f"{len(right.words)}; both files need the same sentences"
            )


def _tag_lists(sentences, keys):
    """Returns the tags of sentences for conlleval: IOBES and BILOU become BIO, others stay."""
    is_json = is_json_lines(sentences[0].path)
    tag_lists = [_json_tags(sentence, keys) if is_json else sentence.tags for sentence in sentences]
    return list(map(to_bio, tag_lists)) if find_scheme(tag_lists) in ("IOBES", "BILOU") else tag_lists


def _json_tags(sentence, keys):
    values = json.loads(sentence.lines[0])
    tags = next((values[key] for key in keys if key in values), None)
    if not isinstance(tags, list) or len(tags) != len(sentence.words):
        raise ValueError(f'{sentence.place()}: "{keys[0]}" has to be a list of {len(sentence.words)} tags')
    for word, tag in enumerate(tags):
        if not is_tag(str(tag)):
            raise ValueError(f'{sentence.place(word)}: "{tag}" in "{keys[0]}" is not a tag; give {NEEDED_TAGS}')
    return tags
