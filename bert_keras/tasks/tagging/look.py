"""A look at the files of run_ner.py."""

import collections
import functools
import os
from collections.abc import Sequence

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.data_prep.text.places import split_by
from bert_keras.data_prep.text.words import Split, split_words
from bert_keras.mistakes import Mistake
from bert_keras.runs.run_dir import MODEL_DIR
from bert_keras.storage.hub import SCHEME
from bert_keras.tasks.dry_run.findings import Findings
from bert_keras.tasks.dry_run.opening import open_settings, stored_task, teacher_of
from bert_keras.tasks.dry_run.pieces import add_pieces, open_tokenizer
from bert_keras.tasks.dry_run.statistics import (
    Texts,
    add_equal_texts,
    add_examples,
    add_shared_texts,
    counted,
    spread,
)
from bert_keras.tasks.tables.examples import naming_teacher
from bert_keras.tasks.tagging.conll import read_conll
from bert_keras.tasks.tagging.features import check_tags, collect_tags
from bert_keras.tasks.tagging.files import check_columns, columns_of, find_files, split_sentences
from bert_keras.tasks.tagging.settings import NerSettings

_WORDS_SHOWN = 16


def look(settings: NerSettings, is_whole: bool) -> list[Findings]:
    """Looks at the files of run_ner.py; not `is_whole`: only for mistakes."""
    together, files, read = Findings(), [], {}
    is_open = False
    with together.catching():
        settings = open_settings(settings, "run_ner")
        is_open, paths = True, find_files(settings)
        settings.check_effects()
        check_columns(settings)
        split = _splitter(settings, is_whole)
        for name, path in paths.items():
            files.append(Findings(path, name))
            with files[-1].reading():
                read[name] = read_conll(path, name != "predict_file", **columns_of(settings, path), split=split)
        if not any(found.problems for found in files):
            with together.reading():
                split_sentences(settings, read)
        with together.reading():
            stored = stored_task(settings, ["token_classification"])
            tags = stored["labels"] if stored else None
            if not stored and not teacher_of(settings) and "train_file" in read:
                tags = collect_tags(read["train_file"])
            with naming_teacher(settings):
                for name in ("train_file", "eval_file"):
                    if tags and name in read:
                        check_tags(read[name], tags)
    if is_whole and is_open:
        texts = [_describe(found, read[found.setting]) for found in files if found.setting in read]
        with together.catching():
            tokenizer = open_tokenizer(settings, settings.init_checkpoint)
            for found in files:
                sentences = [[" ".join(sentence.words)] for sentence in read.get(found.setting, ())]
                add_pieces(found, sentences, tokenizer, settings.max_seq_length)
        add_shared_texts(together, texts)
    return [*files, together]


def _splitter(settings: NerSettings, is_whole: bool) -> Split:
    """Returns how the run splits texts with spans into words; the first text opens the model if that depends on it."""

    @functools.cache
    def split() -> Split:
        words, path = settings.words, settings.init_checkpoint
        folder = settings.output_dir if not settings.do_train else None
        if folder and os.path.isdir(os.path.join(folder, MODEL_DIR)):
            path = folder
        is_stored = not settings.do_train and "words" not in settings.given and path and os.path.isdir(path)
        if words == "conll" and not is_stored:
            return split_words
        if path.startswith(SCHEME) if path else not settings.vocab_file:
            if not is_whole:
                return split_words
            raise Mistake(
                "{words}={} needs the tokenizer of the model, which a dry run does not download; give "
                "{init_checkpoint} as a folder of this machine",
                words,
            )
        from bert_keras.model_folder.folder import ModelFolder  # loads Keras

        casing = settings.do_lower_case, settings.strip_accents
        model = ModelFolder(path, settings.vocab_file, settings.bert_config_file, *casing)
        words = model.settings["words"] if is_stored else words
        return functools.partial(split_by, words, model.tokenizer)

    return lambda text: split()(text)


def _describe(found: Findings, sentences: Sequence[Sentence]) -> Texts:
    texts = Texts(found.path, [sentence.placed for sentence in sentences])
    add_examples(found, map(_shown, sentences[:3]), len(sentences), "sentences")
    tags = [tag for sentence in sentences for tag in sentence.tags or ()]
    if tags:
        entities = collections.Counter(tag[2:] or "entity" for tag in tags if tag.startswith("B"))
        found.add("entities", f"{sum(entities.values()):,} of {len(entities)} types: {counted(entities)}")
        outside = tags.count("O")
        found.add("tags", f"{outside:,} of {len(tags):,} words are in no entity ({100 * outside / len(tags):.1f} %)")
    found.add("words", spread([len(sentence.words) for sentence in sentences], texts.sources))
    labels = [" ".join(sentence.tags or ()) for sentence in sentences]
    add_equal_texts(found, texts, labels if tags else None)
    return texts


def _shown(sentence: Sentence) -> str:
    tags = sentence.tags or ["O"] * len(sentence.words)
    words = [word if tag == "O" else f"{word}/{tag}" for word, tag in zip(sentence.words, tags, strict=True)]
    return " ".join(words[:_WORDS_SHOWN]) + (" ..." if len(words) > _WORDS_SHOWN else "")
