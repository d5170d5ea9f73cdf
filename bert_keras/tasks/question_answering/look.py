"""A look at the files of run_squad.py."""

import dataclasses
from collections.abc import Sequence

from bert_keras.data_prep.text.same_text import Placed, key_of
from bert_keras.mistakes import several
from bert_keras.tasks.dry_run.findings import Findings
from bert_keras.tasks.dry_run.opening import ACTIONS, open_settings, stored_task, teacher_of
from bert_keras.tasks.dry_run.statistics import (
    Texts,
    add_equal_texts,
    add_examples,
    add_shared_texts,
    num_words,
    quoted,
    spread,
)
from bert_keras.tasks.question_answering.metrics import questions_of
from bert_keras.tasks.question_answering.settings import SquadSettings, check_files, without_evaluation
from bert_keras.tasks.question_answering.squad import SquadExample, check_room
from bert_keras.tasks.question_answering.squad_files import QuestionFile, check_answers, make_examples
from bert_keras.tasks.tables.held_out import with_part


def look(settings: SquadSettings, is_whole: bool) -> list[Findings]:
    """Looks at the files of run_squad.py; not `is_whole`: only for mistakes."""
    together, files, texts, read = Findings(), [], [], {}
    with together.catching():
        settings = open_settings(settings, "run_squad")
        settings.check_effects()
        stored = stored_task(settings, ["question_answering"])
        if stored and teacher_of(settings):
            if not is_whole and stored.get("version_2_with_negative", False) != settings.version_2_with_negative:
                return []  # the run tells that the teacher does not fit
        elif stored and "version_2_with_negative" not in settings.given:
            answers = stored.get("version_2_with_negative", settings.version_2_with_negative)
            settings = dataclasses.replace(settings, version_2_with_negative=answers)
        if not settings.do_train and "eval_file" not in settings.given:
            settings = without_evaluation(settings)
        if not (is_whole or settings.do_train or stored):
            return []  # a model that is not in a folder here decides whether texts may lack answers
        check_files(settings)
        if settings.do_train:  # else a model may decide the lengths
            check_room(settings.max_seq_length, settings.max_query_length)
        used = {"train_file": settings.do_train or settings.holds_out, "predict_file": settings.do_predict}
        for name in ACTIONS:
            if getattr(settings, name) and used.get(name, True):
                files.append(Findings(getattr(settings, name), name))
                texts += _read(files[-1], settings, is_whole, read)
        if not any(found.problems for found in files):
            with together.reading():
                with_part(settings, read, "contexts")
    add_shared_texts(together, texts)
    return [*files, together]


def _read(found: Findings, settings: SquadSettings, is_whole: bool, read: dict[str, QuestionFile]) -> list[Texts]:
    """Reads a file into `read`, and adds what it holds; returns its questions with their contexts."""
    is_training, has_unanswered = found.setting == "train_file", settings.version_2_with_negative
    with found.reading():
        file = read[found.setting] = QuestionFile.read(found.path)
        examples = make_examples(file.articles, file.name, is_training, has_unanswered)
        if found.setting == "eval_file":
            check_answers(file.articles, file.name, has_unanswered)
    if found.problems or not is_whole:
        return []
    if is_training:  # ids may repeat
        return [_describe(found, examples, [example.answer_text for example in examples])]
    first = {question["id"]: (question.get("answers") or [{"text": ""}])[0] for question in questions_of(file.articles)}
    return [_describe(found, examples, [first[example.question_id]["text"] for example in examples])]


def _describe(found: Findings, examples: Sequence[SquadExample], answers: Sequence[str]) -> Texts:
    placed = [(f'question "{example.question_id}"', (example.question, example.passage.text)) for example in examples]
    texts = Texts(found.path, [Placed(key_of(pair), place) for place, pair in placed])
    pairs = zip(answers[:3], examples, strict=False)
    first = (f"{quoted(answer) if answer else 'no answer'}: {quoted(example.question)}" for answer, example in pairs)
    add_examples(found, first, len(examples), "questions")
    num_answered = sum(map(bool, answers))
    found.add(
        "answers", f"{several(num_answered, 'questions')} with an answer, {len(examples) - num_answered:,} without"
    )
    passages = {id(example.passage): example.passage for example in examples}
    found.add("contexts", f"{len(passages):,}, with {len(examples) / len(passages):.1f} questions each")
    found.add("words", f"of contexts: {spread([len(passage.words) for passage in passages.values()])}")
    found.add("", f"of questions: {spread([num_words(example.question) for example in examples], texts.sources)}")
    add_equal_texts(found, texts)
    return texts
