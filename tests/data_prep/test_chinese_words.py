"""Masks of whole Chinese words: the tokens stay characters, and those of a word are masked together or not at all."""

import importlib.util
import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_data import examples_of

from bert_keras.data_prep.corpus.workers import ThisProcess
from bert_keras.data_prep.create_pretraining_data import main
from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary, mask_tokens
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.records.writing import read_metadata
from bert_keras.data_prep.text import chinese_words
from bert_keras.data_prep.text.chinese_words import Segmenter, WordMarker, check_words, count_unknown
from bert_keras.data_prep.text.tokenization import FullTokenizer

needs_jieba = pytest.mark.skipif(importlib.util.find_spec("jieba") is None, reason="jieba is not installed")

WORDS = ["使用", "语言", "模型", "语言模型", "预测", "下一个", "概率", "天气", "今天"]
# Greedy search finds these words; 繁 is not in the vocabulary.
SEGMENTED = [
    ["使用", "语言模型", "来", "预测", "下一个", "词", "的", "概率", "。"],
    ["今天", "天气", "好", ",", "use", "语言", "BERT", "预测", "!"],
    ["模型", "的", "概率"],
]
CHARACTERS = sorted({char for sentence in SEGMENTED for word in sentence for char in word if not char.isascii()})
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *CHARACTERS, ",", "!", "use", "be", "##rt", "a", "σ", "ς"]
CLS, SEP, MASK = 2, 3, 4


@pytest.fixture(scope="module")
def tokenizer():
    return FullTokenizer(TOKENS)


@pytest.fixture
def words_file(tmp_path):
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n\n", encoding="utf-8")
    return str(tmp_path / "words.txt")


@pytest.fixture
def files(tmp_path, words_file):
    """The command line for a text, which exists with and without spaces between words."""
    for name, separator in (("text.txt", ""), ("spaces.txt", " ")):
        document = "\n".join(separator.join(sentence) for sentence in SEGMENTED)
        (tmp_path / name).write_text(f"{document}\n\n" * 12, encoding="utf-8")
    (tmp_path / "vocab.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    return [
        "create_pretraining_data.py",
        f"--vocab_file={tmp_path}/vocab.txt",
        "--max_seq_length=24",
        "--max_predictions_per_seq=5",
        "--do_whole_word_mask",
    ]


def test_the_longest_word_of_the_list_counts(words_file):
    segmenter = Segmenter(words_file)
    assert segmenter.split("使用语言模型来预测") == ["使用", "语言模型", "来", "预测"]
    assert segmenter.split("语言模下一概率") == ["语言", "模", "下", "一", "概率"]
    assert segmenter.source.startswith("9 words, sha256 ")


odd_text = st.text(
    st.sampled_from("使用语言模\uf900\U00020000 aBΣσé\u0301\u200b\x0b\x1c\u3000,。カ\t\n\ud55c"), max_size=30
)


@given(text=odd_text, lower=st.booleans(), strip=st.booleans())
def test_ids_without_marks_are_those_of_the_tokenizer(text, lower, strip):
    plain = FullTokenizer(TOKENS, lower, strip)
    ids = WordMarker(plain, Segmenter("spaces")).encode(text)
    assert [id_ % plain.vocab_size for id_ in ids] == plain.encode(text)
    rows = "".join(char if char in "使用语言模\uf900\U00020000" else " " for char in text).split()
    assert sum(id_ >= plain.vocab_size for id_ in ids) == sum(len(row) - 1 for row in rows)


@pytest.mark.parametrize("spans", ["none", "ngram", "geometric"])
def test_characters_of_a_word_are_masked_together_or_not_at_all(tokenizer, words_file, spans):
    marker, vocabulary = WordMarker(tokenizer, Segmenter(words_file)), MaskingVocabulary.from_vocab(tokenizer.vocab)
    first, second = ("".join(sentence) for sentence in SEGMENTED[:2])
    tokens = [CLS, *marker.encode(first), SEP, *marker.encode(second), SEP]
    plain = [CLS, *tokenizer.encode(first), SEP, *tokenizer.encode(second), SEP]
    words, place = [], 1
    for sentence in SEGMENTED[:2]:
        for word in sentence:
            length = len(tokenizer.encode(word))
            words.append(range(place, place + length))
            place += length
        place += 1
    whole = {"do_whole_word_mask": spans == "none", "masked_spans": spans}
    settings, chosen = PretrainingDataSettings(40, 8, masked_lm_prob=0.2, **whole), set()
    for seed in range(200):
        masked, positions, ids = mask_tokens(tokens, vocabulary, random.Random(seed), settings)
        assert ids == [plain[position] for position in positions]
        assert all(masked[i] == plain[i] for i in range(len(plain)) if i not in positions)
        assert max(masked) < tokenizer.vocab_size
        for word in words:
            assert {place in positions for place in word} in ({True}, {False})
            chosen |= {word} if word[0] in positions else set()
    assert chosen == set(words)


def test_a_cut_word_does_not_continue_across_sep(tokenizer):
    mark, vocabulary = tokenizer.vocab_size, MaskingVocabulary.from_vocab(tokenizer.vocab)
    tokens = [CLS, 7 + mark, 8, 9 + mark, SEP, 10 + mark, 11 + mark, SEP]  # words: [1], [2, 3], [5, 6]
    settings = PretrainingDataSettings(8, 2, masked_lm_prob=0.25, do_whole_word_mask=True)
    chosen = {tuple(mask_tokens(tokens, vocabulary, random.Random(seed), settings)[1]) for seed in range(50)}
    assert chosen == {(1,), (2, 3), (5, 6)}


def test_unknown_characters_of_a_word_are_counted(tokenizer):
    marker = WordMarker(tokenizer, Segmenter("spaces"))
    ids = marker.encode("繁用 繁繁繁")
    assert [id_ % marker.vocab_size for id_ in ids] == ids
    assert [id_ >= tokenizer.vocab_size for id_ in ids] == [False, True, False, True, True]
    assert count_unknown(ids, marker) == 4
    assert count_unknown(tokenizer.encode("繁用 繁繁繁"), tokenizer) == 4


def test_a_list_and_spaces_give_the_same_examples(files, tmp_path, words_file):
    built = []
    for text, words in (("text.txt", words_file), ("spaces.txt", "spaces")):
        main([*files, f"--input_file={tmp_path / text}", f"--chinese_words={words}", f"--output_file={tmp_path}/out"])
        built.append(examples_of(tmp_path / "out"))
        metadata = read_metadata(f"{tmp_path}/out")
        assert metadata["vocab_size"] == len(TOKENS)
        assert metadata["settings"]["chinese_words_source"] == Segmenter(words).source
    assert built[0] == built[1]


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same_files(files, tmp_path, words_file):
    input_file, settings = str(tmp_path / "text.txt"), {"do_whole_word_mask": True, "chinese_words": words_file}
    build_pretraining_data(
        Build(
            [input_file],
            [str(tmp_path / "here")],
            FullTokenizer(TOKENS),
            PretrainingDataSettings(24, 5, **settings),
            start_workers=ThisProcess,
        )
    )
    flags = [f"--input_file={input_file}", f"--chinese_words={words_file}", "--num_workers=2"]
    main([*files, *flags, f"--output_file={tmp_path}/workers"])
    assert (tmp_path / "here").read_bytes() == (tmp_path / "workers").read_bytes()


def test_only_masks_differ_from_examples_without_the_flag(files, tmp_path, words_file):
    whole = ["--sentence_task=none", "--short_seq_prob=0", f"--input_file={tmp_path}/text.txt"]
    texts = []
    for words in ("none", words_file):
        main([*files, *whole, f"--chinese_words={words}", f"--output_file={tmp_path}/out"])
        restored = []
        for example in examples_of(tmp_path / "out"):
            for place, id_ in zip(example["masked_lm_positions"], example["masked_lm_ids"], strict=True):
                if place:
                    example["input_ids"][place] = id_
            restored.append(example["input_ids"])
        texts.append(sorted(restored))
    assert texts[0] == texts[1]


@needs_jieba
def test_jieba_finds_the_words(tokenizer, tmp_path, files):
    marker = WordMarker(tokenizer, Segmenter("jieba"))
    ids = marker.encode("使用语言模型, use 今天预测天气")
    starts = [number for number, id_ in enumerate(ids) if id_ < tokenizer.vocab_size]
    assert starts == [0, 2, 4, 6, 7, 8, 10, 12]  # 使用 语言 模型 , use 今天 预测 天气
    flags = [f"--input_file={tmp_path}/text.txt", f"--output_file={tmp_path}/out", "--chinese_words=jieba"]
    main([*files, *flags])
    assert read_metadata(f"{tmp_path}/out")["settings"]["chinese_words_source"].startswith("jieba 0.42.")


def test_without_jieba_one_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "jieba", None)
    chinese_words._jieba.cache_clear()
    with pytest.raises(ValueError, match=r"needs jieba, which is not installed; run pip install 'bert-keras\[jieba\]'"):
        Segmenter("jieba")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            None,
            'chinese_words: the file ".*words" does not exist; give jieba, spaces, or a file with one word a line',
        ),
        ("北京\n北京 34488 ns\n", 'words line 2: "北京 34488 ns" is more than one word; give one word a line'),
        ("北\n京\nword\n", "words has no word of two or more Chinese characters; give a list of Chinese words"),
        (" \n", "words is empty; give a file with one word a line"),
    ],
)
def test_a_file_that_is_no_list_of_words_is_refused(tmp_path, content, sentence):
    if content is not None:
        (tmp_path / "words").write_text(content, encoding="utf-8")
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        Segmenter(str(tmp_path / "words"))


def test_words_that_are_not_chinese_are_told(tmp_path, messages):
    (tmp_path / "words").write_text("北京\nT恤\n3D\n", encoding="utf-8")
    assert Segmenter(str(tmp_path / "words")).split("北京市") == ["北京", "市"]
    assert '2 words are not used, because they have characters that are not Chinese (line 2, "T恤"' in messages[-1]


def test_text_without_spaces_between_words_is_refused(files, tmp_path):
    (tmp_path / "text.txt").write_text("使用语言模型来预测下一个词的概率\n今天天气好\n\n" * 3, encoding="utf-8")
    arguments = [*files, f"--input_file={tmp_path}/text.txt", f"--output_file={tmp_path}/out/x"]
    sentence = "the 6 Chinese words of two or more characters have 10.5 on average, but words have about 2.2: spaces"
    for further in ("--num_workers=1", "--dry_run"):
        with pytest.raises(ValueError, match=sentence):
            main([*arguments, "--chinese_words=spaces", further])
        assert not (tmp_path / "out").exists()


def test_text_without_chinese_words_is_told(tokenizer, messages):
    marker = WordMarker(tokenizer, Segmenter("spaces"))
    check_words(marker.encode("a use 的"), marker)
    check_words(marker.encode("使用 语言模型 的 概率"), marker)
    assert messages == [
        "the text has no Chinese words of two or more characters, so chinese_words changes nothing",
        "found 3 Chinese words of two or more characters, 2.7 on average",
    ]


def test_the_list_of_words_is_not_overwritten(files, tmp_path, words_file):
    arguments = [*files, f"--input_file={tmp_path}/text.txt", f"--chinese_words={words_file}"]
    with pytest.raises(ValueError, match=r'the output file ".*words.txt" is the input ".*words.txt"'):
        main([*arguments, f"--output_file={words_file}"])


@pytest.mark.parametrize("text", [".".join(SEGMENTED[0]), "今天 use 模型", "no Chinese", "预测" * 40])
def test_the_vocabulary_is_not_read_again_for_a_text(tokenizer, words_file, text):
    class Once(dict):
        def __iter__(self):
            pytest.fail("the vocabulary was scanned")

        keys = values = items = __iter__

    copy = FullTokenizer(TOKENS)
    expected = WordMarker(tokenizer, Segmenter(words_file)).encode(text)
    marker = WordMarker(copy, Segmenter(words_file))
    copy.vocab, copy.inv_vocab = Once(copy.vocab), Once(copy.inv_vocab)
    assert marker.encode(text) == expected
