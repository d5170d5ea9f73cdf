"""Models that transformers saves open with their head and labels, and answer as its own classes and pipelines do."""

import json
import shutil

import numpy as np
import pytest
from converted import convert
from fine_tuned_models import FINE_TUNED, write_fine_tuned
from foreign_folders import FAMILIES, random_peer
from known_models import TOKENS
from safetensors.numpy import load_file, save_file

from bert_keras.mistakes import Mistake
from bert_keras.prediction import open_model

torch = pytest.importorskip("torch", reason="PyTorch, of the extra [peers], is not installed")
transformers = pytest.importorskip("transformers", reason="transformers, of the extra [peers], is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("no_graphs")]

TEXTS = ["he was hungry so he ate .", "paris is the capital of france", "walked"]
PAIRS = [("he was hungry", "so he ate ."), ("paris", "is the capital of france a b c d")]
TAGS = {
    "bio": ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"],
    "types": ["O", "PER", "LOC"],
    "iobes": ["O", "B-PER", "I-PER", "E-PER", "S-PER"],
    "parts of speech": ["NOUN", "VERB", "DET"],
}


def make_peer(folder, family, end, length=40, **config):
    """Writes a model of transformers with random weights and its tokenizer. Returns model and tokenizer."""
    peer = random_peer(family, end, num_layers=2, **{"vocab_size": len(TOKENS)} | config)
    peer.save_pretrained(folder)
    (folder / "words.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    tokenizer = transformers.BertTokenizerFast(str(folder / "words.txt"), model_max_length=length)
    (folder / "words.txt").unlink()
    if family == "distilbert":
        tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.save_pretrained(folder)
    return peer, tokenizer


def logits_of(peer, tokenizer, *texts):
    with torch.no_grad():
        return peer(**tokenizer(*texts, return_tensors="pt")).logits.numpy()


def best_span(peer, tokenizer, question, context):
    """Returns where the best answer starts and ends in a context that the model reads whole.

    As in the original BERT, an answer is one of the spans between the 20 best places, here all.
    """
    with torch.no_grad():
        outputs = peer(**tokenizer(question, context, return_tensors="pt"))
    tokens = tokenizer(question, context, return_offsets_mapping=True).encodings[0]
    places = [n for n, part in enumerate(tokens.sequence_ids) if part == 1]
    start, end = outputs.start_logits[0].numpy(), outputs.end_logits[0].numpy()
    scores = {(a, b): start[a] + end[b] for a in places for b in places if a <= b}
    a, b = max(scores, key=scores.__getitem__)
    return tokens.offsets[a][0], tokens.offsets[b][1]


@pytest.mark.parametrize("family", FAMILIES)
class TestEachFamily:
    @pytest.mark.parametrize(
        ("config", "task"),
        [
            ({"num_labels": 3, "problem_type": "multi_label_classification"}, "multi_label"),
            ({"num_labels": 1, "problem_type": "multi_label_classification"}, "multi_label"),
            ({"num_labels": 1, "problem_type": "regression"}, "regression"),
            ({"num_labels": 2}, "classification"),
        ],
    )
    def test_the_problem_type_decides(self, tmp_path, family, config, task):
        peer, tokenizer = make_peer(tmp_path, family, "ForSequenceClassification", **config)
        classify = transformers.pipeline("text-classification", model=peer, tokenizer=tokenizer, top_k=None)
        model = open_model(tmp_path)
        assert model.settings["task"] == task
        for text in TEXTS:
            answer = model(text)
            found = {"LABEL_0": answer.value} if task == "regression" else answer.probabilities
            assert found == pytest.approx({each["label"]: each["score"] for each in classify([text])[0]}, abs=1e-5)

    @pytest.mark.parametrize("scheme", TAGS)
    def test_tags(self, tmp_path, family, scheme):
        labels = {"id2label": dict(enumerate(TAGS[scheme]))}
        peer, tokenizer = make_peer(tmp_path, family, "ForTokenClassification", **labels)
        tag = transformers.pipeline(
            "token-classification", model=peer, tokenizer=tokenizer, aggregation_strategy="first", ignore_labels=[]
        )
        model = open_model(tmp_path)
        for text in TEXTS:
            answer = model(text)
            logits = logits_of(peer, tokenizer, text)[0]
            shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
            firsts = [n for n, token in enumerate(tokenizer(text).tokens()) if not token.startswith(("[", "##"))]
            assert [word.tag for word in answer.words] == [TAGS[scheme][shares[n].argmax()] for n in firsts]
            assert [word.probability for word in answer.words] == pytest.approx(shares[firsts].max(-1), abs=1e-5)
            if scheme in ("bio", "types"):
                found = [(each["entity_group"], each["start"], each["end"]) for each in tag(text)]
                expected = [each for each in found if each[0] != "O"]
                assert [(each.type, each.start, each.end) for each in answer.entities] == expected


def add_entries(folder, **entries):
    """Adds entries to the weights in a folder."""
    file = folder / "model.safetensors"
    save_file(load_file(file) | {name.replace("__", "."): value for name, value in entries.items()}, file)


def change_config(folder, **values):
    """Changes keys of a config.json; None removes a key."""
    file = folder / "config.json"
    config = json.loads(file.read_text()) | values
    file.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def assert_same_classes(folder, model):
    """Compares the logits of a classifier with those of transformers for the same folder."""
    peer = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    [logits] = logits_of(peer, tokenizer, TEXTS[0])
    shares = np.exp(logits) / np.exp(logits).sum()
    assert list(model(TEXTS[0]).probabilities.values()) == pytest.approx(shares, abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
class TestFilesThatTransformersAccepts:
    def test_further_entries_do_not_count(self, tmp_path, family, messages):
        make_peer(tmp_path, family, "ForSequenceClassification")
        scalar = np.array(2.5, np.float32)
        add_entries(tmp_path, temperature=scalar, loss_fct__weight=np.ones(2, np.float32), crf__transitions=scalar)
        assert_same_classes(tmp_path, open_model(tmp_path))
        assert any("unused: crf.transitions, loss_fct.weight, temperature" in line for line in messages)

    def test_a_table_may_have_rows_without_a_token(self, tmp_path, family):
        make_peer(tmp_path, family, "ForSequenceClassification", vocab_size=len(TOKENS) + 24)
        assert_same_classes(tmp_path, open_model(tmp_path))
        shutil.rmtree(tmp_path)
        make_peer(tmp_path, family, "ForSequenceClassification", vocab_size=200)
        assert_same_classes(tmp_path, open_model(tmp_path))
        assert_same_classes(tmp_path, open_model(convert(tmp_path, tmp_path / "copy", "tensorflow")))

    @pytest.mark.parametrize("architectures", [None, ["BertForReviews"]])
    def test_the_user_names_the_task_if_the_class_does_not(self, tmp_path, family, architectures):
        peer, tokenizer = make_peer(tmp_path, family, "ForTokenClassification", id2label={0: "O", 1: "PER"})
        change_config(tmp_path, architectures=architectures)
        with pytest.raises(Mistake, match="the weights may be those of several tasks; give task with one of classific"):
            open_model(tmp_path)
        shares = torch.softmax(torch.tensor(logits_of(peer, tokenizer, TEXTS[2])[0, 1]), -1).numpy()
        [word] = open_model(tmp_path, task="token_classification")(TEXTS[2]).words
        assert word.probability == pytest.approx(shares.max(), abs=1e-5)

    def test_one_possible_task_is_no_question(self, tmp_path, family):
        make_peer(tmp_path, family, "ForQuestionAnswering")
        change_config(tmp_path, architectures=None)
        assert open_model(tmp_path).settings["task"] == "question_answering"
        with pytest.raises(Mistake, match="no class .architectures., and the weights have the heads squad; take a mod"):
            open_model(tmp_path, task="classification")

    def test_a_problem_type_answers(self, tmp_path, family):
        make_peer(tmp_path, family, "ForSequenceClassification", problem_type="single_label_classification")
        change_config(tmp_path, architectures=None)
        assert_same_classes(tmp_path, open_model(tmp_path))

    def test_other_weights_beside_the_model(self, tmp_path, family):
        make_peer(tmp_path, family, "ForSequenceClassification")
        for name in ("model.fp16.safetensors", "adapter_model.safetensors", "model.safetensors.index.json"):
            (tmp_path / name).write_text("{}")
        assert_same_classes(tmp_path, open_model(tmp_path))
        (tmp_path / "adapter_config.json").write_text("{}")
        with pytest.raises(Mistake, match=r"has an adapter_config.json, .* PEFT adapter, .* merge them"):
            open_model(tmp_path)

    def test_short_contexts_have_an_answer(self, tmp_path, family):
        peer, tokenizer = make_peer(tmp_path, family, "ForQuestionAnswering")
        with torch.no_grad():
            peer.qa_outputs.weight.mul_(-1)
        peer.save_pretrained(tmp_path)
        model = open_model(tmp_path)
        for context in ("paris", "he was", "a b c d"):
            answer = model(("is he hungry", context))
            assert (answer.start, answer.end) == best_span(peer, tokenizer, "is he hungry", context)


def test_a_model_of_one_segment_has_it_in_both_texts(tmp_path):
    peer, tokenizer = make_peer(tmp_path, "bert", "ForSequenceClassification", type_vocab_size=1)
    with pytest.raises(IndexError):
        logits_of(peer, tokenizer, *PAIRS[0])
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    [logits] = logits_of(peer, tokenizer, *PAIRS[0])
    shares = np.exp(logits) / np.exp(logits).sum()
    assert list(open_model(tmp_path)(PAIRS[0]).probabilities.values()) == pytest.approx(shares, abs=1e-5)


def test_a_head_of_one_number_is_a_question(tmp_path):
    peer, tokenizer = make_peer(tmp_path, "bert", "ForSequenceClassification", num_labels=1)
    with pytest.raises(Mistake, match="has one label and no problem_type, .* give task=regression"):
        open_model(tmp_path)
    [[logit]] = logits_of(peer, tokenizer, TEXTS[0])
    assert open_model(tmp_path, task="regression")(TEXTS[0]).value == pytest.approx(logit, abs=1e-5)
    [share] = open_model(tmp_path, task="multi_label")(TEXTS[0]).probabilities.values()
    assert share == pytest.approx(1 / (1 + np.exp(-logit)), abs=1e-5)


class TestWrittenFolders:
    """What we write opens in transformers, and, without the task.json, here, with the same answers."""

    @pytest.fixture
    def written(self, tmp_path):
        def write(task, **changes):
            make, settings = FINE_TUNED[task]
            run = write_fine_tuned(tmp_path / "run", make(), task, **(settings | changes))
            folder = convert(run, tmp_path / "safe")
            (folder / "task.json").unlink()
            return open_model(run), folder, transformers.BertTokenizerFast.from_pretrained(folder)

        return write

    @pytest.mark.parametrize("task", ["classification", "multi_label", "regression"])
    def test_classifiers(self, written, task):
        model, folder, tokenizer = written(task, is_pair=False)
        classify = transformers.pipeline("text-classification", str(folder), tokenizer=tokenizer, top_k=None)
        for text in TEXTS:
            answer, reread = model(text), open_model(folder)(text)
            ours, again = (
                {"LABEL_0": each.value} if task == "regression" else each.probabilities for each in (answer, reread)
            )
            assert again == pytest.approx(ours, abs=1e-5)
            found = {each["label"]: each["score"] for each in classify([text])[0]}
            assert found == pytest.approx(ours, abs=1e-5)

    def test_taggers(self, written):
        model, folder, tokenizer = written("token_classification")
        tag = transformers.pipeline("token-classification", str(folder), tokenizer=tokenizer, ignore_labels=[])
        for text in TEXTS[:2]:
            found = [(each["entity"], each["score"]) for each in tag(text) if not each["word"].startswith("##")]
            words = model(text).words
            assert [word.tag for word in words] == [label for label, _ in found]
            assert [word.probability for word in words] == pytest.approx([score for _, score in found], abs=1e-5)
            assert [word.tag for word in open_model(folder)(text).words] == [word.tag for word in words]

    def test_choices(self, written):
        model, folder, tokenizer = written("multiple_choice")
        peer = transformers.AutoModelForMultipleChoice.from_pretrained(folder).eval()
        encoded = tokenizer(["he was"] * 2, ["hungry", "so he ate"], return_tensors="pt", padding=True)
        with torch.no_grad():
            shares = torch.softmax(peer(**{name: values[None] for name, values in encoded.items()}).logits[0], -1)
        question = ("he was", ["hungry", "so he ate"])
        assert model(question).probabilities == pytest.approx(shares.numpy(), abs=1e-5)
        assert open_model(folder)(question).probabilities == pytest.approx(shares.numpy(), abs=1e-5)

    def test_answers(self, written):
        model, folder, tokenizer = written("question_answering", version_2_with_negative=False)
        peer = transformers.AutoModelForQuestionAnswering.from_pretrained(folder).eval()
        question, context = "where is he", "he was hungry so he ate in paris"
        expected = best_span(peer, tokenizer, question, context)
        for each in (model, open_model(folder)):
            answer = each((question, context))
            assert (answer.start, answer.end) == expected
