"""Tests of models whose only vocabulary is the tokenizer.json of other libraries."""

import json

import pytest
from converted import convert

from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.mistakes import Mistake
from bert_keras.prediction import FillMask
from bert_keras.storage.tokenizer.vocabulary import read_tokens, vocabulary_bytes, vocabulary_in
from tests.support.known_models import TOKENS, random_model, write_model

pytestmark = pytest.mark.usefixtures("no_graphs")

MODEL = random_model(num_hidden_layers=1)
NORMALIZER = {"type": "BertNormalizer", "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}


def make_json(tokens=TOKENS, normalizer=NORMALIZER, pre_tokenizer="BertPreTokenizer", added=(), **model):
    """Returns the values of a tokenizer.json."""
    vocab = {token: number for number, token in enumerate(tokens)}
    return {
        "version": "1.0",
        "added_tokens": [{"id": id_, "content": token, "special": True} for token, id_ in added],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": pre_tokenizer},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "vocab": vocab,
            **model,
        },
    }


@pytest.fixture
def write(tmp_path):
    """Returns a function that writes a tokenizer.json."""

    def function(values=None, **options):
        file = tmp_path / "tokenizer.json"
        file.write_text(json.dumps(make_json(**options) if values is None else values), encoding="utf-8")
        return file

    return function


def test_tokens_have_their_ids(write):
    assert read_tokens(write()) == TOKENS
    vocab = {"b": 2, "[UNK]": 0, "a": 4}  # as of a vocab.txt with equal lines
    assert read_tokens(write(vocab=vocab, added=[("[UNK]", 0), ("[SEP]", 5)])) == ["[UNK]", "", "b", "", "a", "[SEP]"]
    file = write(vocab={"[UNK]": 0, "ä": 1})
    assert vocabulary_bytes(file) == "[UNK]\nä\n".encode()
    assert FullTokenizer(file, do_lower_case=False).encode("ä") == [1]


def test_a_vocab_txt_comes_first(write, tmp_path):
    assert vocabulary_in(tmp_path) is None
    file = write()
    assert vocabulary_in(tmp_path) == str(file)
    write(type="Unigram", vocab=[["a", -1.5]])
    assert vocabulary_in(tmp_path) is None
    (tmp_path / "vocab.txt").write_text("[UNK]\n")
    assert vocabulary_in(tmp_path) == str(tmp_path / "vocab.txt")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": "Unigram"}, "has tokens of Unigram, but a BERT has word pieces$"),
        ({"continuing_subword_prefix": "@@"}, 'marks the later pieces of a word with "@@", but a BERT needs ##$'),
        ({"vocab": {}}, "has no tokens; "),
        ({"vocab": {"a": -1}}, "has tokens with wrong ids; give the tokenizer.json that came with the model$"),
        ({"vocab": {"a": 1_000_000_000}}, "has tokens with wrong ids; "),
        ({"vocab": {"a": "0"}}, "has tokens with wrong ids; "),
        ({"vocab": {"a": 0.5}}, "has tokens with wrong ids; "),
        ({"vocab": {"a": None}}, "has tokens with wrong ids; "),
        ({"added": [("[SEP]", None)]}, "has tokens with wrong ids; "),
        (
            {"vocab": None},
            "is not a tokenizer.json; give the tokenizer.json or the vocab.txt that came with the model$",
        ),
        ({"values": [1]}, "is not a tokenizer.json; "),
    ],
)
def test_other_files_are_refused(write, options, message):
    with pytest.raises(ValueError, match=message):
        read_tokens(write(**options))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *(("added_tokens", values) for values in (5, {}, ["[SEP]"], [{"id": 3}], [{"id": 3, "content": 3}])),
        *(("truncation", values) for values in (1.5, "left")),
        *(("post_processor", values) for values in ([], {"pair": 5}, {"single": ["A"]}, {"pair": [{"A": "B"}]})),
    ],
)
def test_a_part_of_another_form_is_named(write, tmp_path, name, values):
    file = write(make_json() | {name: values})
    with pytest.raises(Mistake, match=f"^{file}: {name} has another form than the package tokenizers gives it; give"):
        FullTokenizer.from_checkpoint(tmp_path)


def test_ids_are_checked_before_they_are_compared_with_those_of_the_other_file(write, tmp_path):
    write(vocab={"[UNK]": 0, "[SEP]": None}, added=[("[SEP]", 1)])
    (tmp_path / "vocab.txt").write_text("[UNK]\n[SEP]\n")
    with pytest.raises(Mistake, match="has tokens with wrong ids; "):
        FullTokenizer.from_checkpoint(tmp_path)


TEMPLATE = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]


@pytest.mark.parametrize(
    ("name", "values", "found"),
    [
        ("tokenizer.json", make_json(added=[("[UNK]", 1), ("<e1>", 40)]), "the added tokens <e1>, which bert"),
        ("tokenizer.json", make_json() | {"post_processor": {"type": "TemplateProcessing", "single": TEMPLATE}},
         "another template than"),
        ("added_tokens.json", {f"<e{i}>": 40 + i for i in range(7)}, "the added tokens <e0>, .*, <e4> and 2"),
        ("special_tokens_map.json", {"additional_special_tokens": ["<e1>"]}, "the added tokens <e1>, which bert-keras"),
        ("special_tokens_map.json", {"unk_token": {"content": "<unk>"}}, "the unk_token <unk>"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"9": {"content": "<e1>"}}}, "the added tokens <e1>, which"),
        ("tokenizer_config.json", {"cls_token": "<s>"}, "the cls_token <s>"),
        ("tokenizer_config.json", {"never_split": ["a"]}, r'never_split \["a"\]'),
        ("tokenizer_config.json", {"do_basic_tokenize": False}, "do_basic_tokenize false"),
        ("tokenizer_config.json", {"truncation_side": "left"}, 'truncation_side "left"'),
    ],
)  # fmt: skip
def test_tokens_that_would_be_others_are_refused(tmp_path, name, values, found):
    write_model(tmp_path, MODEL)
    (tmp_path / name).write_text(json.dumps(values))
    for open_it in (FullTokenizer.from_checkpoint, FillMask):
        with pytest.raises(
            ValueError, match=f"{name} has {found}.*; bert-keras makes the tokens of a plain BERT, so take"
        ):
            open_it(tmp_path)


@pytest.mark.parametrize("value", ["[E1]", 5, float("nan")])
def test_added_tokens_are_a_list_or_an_object(tmp_path, value):
    write_model(tmp_path, MODEL)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"additional_special_tokens": value}))
    with pytest.raises(Mistake, match="_config.json: additional_special_tokens is .*, but must be a list or an obj"):
        FullTokenizer.from_checkpoint(tmp_path)


def test_what_plain_berts_have_changes_nothing(tmp_path, write):
    write_model(tmp_path, MODEL)
    expected = FullTokenizer.from_checkpoint(tmp_path).encode("he walks [MASK]")
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    single = [*TEMPLATE, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    pair = [{"Sequence": {"id": "B", "type_id": 1}}, {"SpecialToken": {"id": "[SEP]", "type_id": 1}}]
    post = {"type": "TemplateProcessing", "single": single, "pair": single + pair}
    write(make_json(added=[(token, number) for number, token in enumerate(special)]) | {"post_processor": post})
    named = {f"{token[1:-1].lower()}_token": token for token in special}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(named))
    decoder = {str(number): {"content": token} for number, token in enumerate(special)}
    values = named | {"added_tokens_decoder": decoder, "never_split": None, "do_basic_tokenize": True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(values | {"extra_special_tokens": {}}))
    assert FullTokenizer.from_checkpoint(tmp_path).encode("he walks [MASK]") == expected


@pytest.mark.parametrize(("longest", "written"), [(None, 100), (9, 9), (900, 900)])
def test_the_longest_word_is_that_of_the_file_and_stays(tmp_path, write, longest, written):
    folder = write_model(tmp_path, MODEL)
    assert FullTokenizer.from_checkpoint(folder).encode("k" + "s" * 199) != [1]
    write(**({} if longest is None else {"max_input_chars_per_word": longest}))
    convert(folder, tmp_path / "out", "tensorflow", head="none")
    FullTokenizer.from_checkpoint(folder).save(tmp_path / "saved")
    for place in (folder, tmp_path / "out", tmp_path / "saved"):
        tokenizer = FullTokenizer.from_checkpoint(place)
        assert tokenizer.longest_word == written
        texts = ["k" + "s" * (written - 1), "k" + "s" * written]
        encoded = [tokenizer.encode(text) for text in texts]
        assert [ids != [1] for ids in encoded] == [True, False]
        graph = GraphTokenizer(tokenizer)
        assert graph.tokenize(texts).to_list() == encoded


@pytest.mark.parametrize(("lowercase", "strip_accents"), [(True, None), (False, None), (True, False)])
def test_the_normalizer_sets_the_casing(write, tmp_path, messages, lowercase, strip_accents):
    file = write(normalizer=NORMALIZER | {"lowercase": lowercase, "strip_accents": strip_accents})
    assert FullTokenizer.from_checkpoint(tmp_path).casing == (lowercase, strip_accents)
    assert messages[0].endswith(f"(set in {file})")
    # The other file is about the same tokenizer, and comes first.
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}')
    assert FullTokenizer.from_checkpoint(tmp_path).casing == (True, None)


def test_other_preparation_is_reported(write, tmp_path, messages):
    normalizer = NORMALIZER | {"handle_chinese_chars": False}
    file = write(normalizer=normalizer, pre_tokenizer="Whitespace")
    assert FullTokenizer.from_checkpoint(tmp_path).casing == (True, None)
    assert messages[:2] == [
        f"{file}: pre_tokenizer is Whitespace, but text is prepared as by BertPreTokenizer: give text that is prepared "
        "as in the model's training, or expect wrong answers",
        f"{file}: handle_chinese_chars is false, which is ignored: each Chinese character is a word",
    ]
    messages.clear()
    write(normalizer={"type": "Sequence", "normalizers": []})
    FullTokenizer.from_checkpoint(tmp_path)
    assert messages[0].startswith(f"{file}: normalizer is Sequence, but text is prepared as by BertNormalizer: ")
    assert messages[1].endswith(f"(guessed from the words of {file})")


def test_a_model_without_vocab_txt_is_used_and_converted(tmp_path):
    folder = write_model(tmp_path / "model", random_model())
    text = f"he {TOKENS[-1]} [MASK]"
    expected = FillMask(folder)(text)
    for name in ("vocab.txt", "tokenizer_config.json"):
        (folder / name).unlink(missing_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(make_json()))
    assert FillMask(folder)(text) == expected
    convert(folder, tmp_path / "converted")
    assert read_tokens(tmp_path / "converted" / "vocab.txt") == TOKENS
    assert FillMask(tmp_path / "converted")(text) == expected


def test_both_files_of_a_real_model_agree(minilm):
    assert read_tokens(minilm / "tokenizer.json") == read_tokens(minilm / "vocab.txt")


@pytest.mark.slow  # loads transformers
@pytest.mark.parametrize("do_lower_case", [True, False])
def test_a_folder_of_transformers_gives_its_ids(tmp_path, do_lower_case):
    peer = pytest.importorskip("transformers", reason="transformers, of the extra [peers], is not installed")
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in TOKENS))
    saved = peer.BertTokenizer.from_pretrained(str(tmp_path), do_lower_case=do_lower_case)
    saved.add_tokens(["rome"])
    saved.save_pretrained(str(tmp_path / "saved"))
    assert not (tmp_path / "saved" / "vocab.txt").exists()
    text = "He walked, a bé\u4e00 Paris rome."
    ours = FullTokenizer.from_checkpoint(tmp_path / "saved")
    assert ours(text)["input_ids"][0].tolist() == saved(text)["input_ids"]
    assert ours.tokens == [*TOKENS, "rome"]
