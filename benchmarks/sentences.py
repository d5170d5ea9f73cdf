"""Compares sentence splitters on texts whose sentences are known: F1 of the boundaries, and speed.

    python benchmarks/sentences.py --texts brown.txt de_gsd-ud-test.conllu:de --splitters rules pysbd syntok

A text has one sentence a line and a blank line between documents, or is a treebank in CoNLL-U. `:de` is its language.
The sentences of a document are joined with a space; Chinese without. Every splitter gets the joined text. A boundary is
a number of characters before it, without white space. The end of a document does not count. Speed is that of one
process, in MB of UTF-8 for each second of the processor. Other splitters than `rules` need their packages.
"""

import argparse
import pathlib
import sys
import time
from collections.abc import Callable, Iterator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # it runs without installation

from benchmarks.machine import describe_machine

# A treebank does not name all documents, so this many sentences are one.
_SENTENCES = 20


def read_documents(file: str) -> list[list[str]]:
    """Returns the sentences of each document."""
    text = pathlib.Path(file).read_text(encoding="utf-8")
    if not file.endswith(".conllu"):
        return [part.strip().split("\n") for part in text.split("\n\n") if part.strip()]
    sentences = [line[9:] for line in text.splitlines() if line.startswith("# text = ")]
    return [sentences[first : first + _SENTENCES] for first in range(0, len(sentences), _SENTENCES)]


def rules(language: str) -> Callable:
    """Returns the splitter of --split_sentences."""
    from bert_keras.data_prep.text.sentence_splitting import split_sentences

    return split_sentences


def pysbd(language: str) -> Callable:
    """Returns the splitter of pysbd."""
    import pysbd

    return pysbd.Segmenter(language=language, clean=False).segment


def syntok(language: str) -> Callable:
    """Returns the splitter of syntok, which knows English, German and Spanish."""
    from syntok import segmenter

    def split(text):
        first = 0
        for paragraph in segmenter.analyze(text):
            for sentence in paragraph:
                # Its tokens may differ from the text, for example in contractions; their places do not.
                yield text[first : (end := sentence[-1].offset + len(sentence[-1].value))]
                first = end

    return split


def icu(language: str) -> Callable:
    """Returns the sentence breaks of ICU, without those after abbreviations."""
    from icu import BreakIterator, Locale

    breaks = BreakIterator.createSentenceInstance(Locale(f"{language}@ss=standard"))

    def split(text):
        # ICU counts in UTF-16.
        encoded = text.encode("utf-16-le")
        breaks.setText(text)
        first = 0
        for end in breaks:
            yield encoded[2 * first : 2 * end].decode("utf-16-le")
            first = end

    return split


def blingfire(language: str) -> Callable:
    """Returns the splitter of BlingFire."""
    import blingfire

    return lambda text: blingfire.text_to_sentences(text).split("\n")


def sentencex(language: str) -> Callable:
    """Returns the splitter of sentencex."""
    import sentencex

    return lambda text: sentencex.segment(language, text)


def nupunkt(language: str) -> Callable:
    """Returns the splitter of nupunkt, which was trained on English."""
    import nupunkt

    return nupunkt.sent_tokenize


SPLITTERS = {split.__name__: split for split in (rules, pysbd, syntok, icu, blingfire, sentencex, nupunkt)}


def boundaries(sentences) -> Iterator[int]:
    """Yields the number of characters before each boundary, without white space."""
    total = 0
    for sentence in sentences:
        total += len("".join(sentence.split()))
        yield total


def measure(split: Callable, documents: list[list[str]], space: str) -> dict:
    """Returns precision, recall and F1 of the boundaries, and MB a second."""
    num_right = num_found = num_true = num_bytes = 0
    seconds = 0.0
    for sentences in documents:
        text = space.join(sentences)
        start = time.process_time()
        found = list(split(text))
        seconds += time.process_time() - start
        num_bytes += len(text.encode("utf-8"))
        true = set(boundaries(sentences))
        seen = set(boundaries(found)) - {0, max(true)}
        true -= {max(true)}
        num_right += len(true & seen)
        num_found += len(seen)
        num_true += len(true)
    precision, recall = num_right / max(1, num_found), num_right / max(1, num_true)
    f1 = 2 * precision * recall / max(1e-9, precision + recall)
    return {"precision": precision, "recall": recall, "f1": f1, "speed": num_bytes / 1e6 / seconds}


def take(documents: list[list[str]], most_bytes: int) -> list[list[str]]:
    """Returns every n-th document, so that about `most_bytes` bytes are left."""
    size = sum(len(sentence.encode("utf-8")) for sentences in documents for sentence in sentences)
    return documents[:: max(1, round(size / most_bytes))]


def main() -> None:
    """Prints a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", nargs="+", required=True, help="files; with :LANGUAGE if not English")
    parser.add_argument("--splitters", nargs="+", choices=list(SPLITTERS), default=["rules"])
    parser.add_argument("--most_bytes", type=int, default=1_000_000, help="of each text")
    args = parser.parse_args()
    print(describe_machine())
    print(
        "\n| text | language | splitter | precision | recall | F1 | MB/s |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for given in args.texts:
        file, _, language = given.partition(":")
        language = language or "en"
        documents = take(read_documents(file), args.most_bytes)
        for name in args.splitters:
            try:
                split = SPLITTERS[name](language)
            except Exception as error:  # noqa: BLE001 (each package has its own error for an unknown language)
                print(f"| {pathlib.Path(file).name} | {language} | {name} | not available: {error} | | | |", flush=True)
                continue
            result = measure(split, documents, "" if language == "zh" else " ")
            shares = " | ".join(f"{100 * result[key]:.1f}" for key in ("precision", "recall", "f1"))
            print(f"| {pathlib.Path(file).name} | {language} | {name} | {shares} | {result['speed']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
