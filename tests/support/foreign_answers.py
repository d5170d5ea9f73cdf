"""How far the answers to the texts of `foreign_folders` are from those of transformers, which opens the same folder."""

import numpy as np
import pytest
from foreign_folders import PAIRS, TEXTS

torch = pytest.importorskip("torch", reason="PyTorch, of the extra [peers], is not installed")
transformers = pytest.importorskip("transformers", reason="transformers, of the extra [peers], is not installed")
if int(transformers.__version__.partition(".")[0]) < 5:
    pytest.skip("the tokenizers of transformers 4 differ from those of 5", allow_module_level=True)

_TOLERANCE = 1e-5
_CHOICES = ("he was hungry", "title [SEP] body", "日本語 é")


class Peer:
    """A folder as transformers opens it."""

    def __init__(self, folder, end):
        kind = {"ForNextSentencePrediction": "AutoModelForNextSentencePrediction"}.get(end, f"AutoModel{end}")
        self.model = getattr(transformers, kind).from_pretrained(folder).eval()
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder))
        # transformers fails with a length that is text or has a point.
        self.tokenizer.model_max_length = int(float(self.tokenizer.model_max_length))
        self.length = min(40, self.tokenizer.model_max_length)

    def encode(self, *texts):
        return self.tokenizer(*texts, return_tensors="pt", truncation=True, max_length=self.length)

    def fits(self, *texts):
        return len(self.tokenizer(*texts)["input_ids"]) <= self.length

    def __call__(self, *texts):
        with torch.no_grad():
            return self.model(**self.encode(*texts))


def softmax(logits, axis=-1):
    return torch.softmax(torch.tensor(np.asarray(logits)), axis).numpy()


def of_classes(model, peer):
    inputs, task = [*TEXTS, *PAIRS], model.settings["task"]
    found = {}
    for text, answer in zip(inputs, model(inputs), strict=True):
        logits = peer(*([text] if isinstance(text, str) else text)).logits[0]
        if task == "regression":
            found[text] = abs(answer.value - float(logits[0])) / max(1, abs(float(logits[0])))
        else:
            shares = torch.sigmoid(logits) if task == "multi_label" else torch.softmax(logits, -1)
            found[text] = np.abs(shares.numpy() - list(answer.probabilities.values())).max()
    return found


def of_tags(model, peer):
    """The words are those of the tokenizer, and the tag of a word is that of its first token.

    Texts of one window only, whose context is that of transformers.
    """
    texts, found = [text for text in TEXTS if peer.fits(text)], {}
    labels = list(peer.model.config.id2label.values())
    for text, answer in zip(texts, model(texts), strict=True):
        shares = softmax(peer(text).logits[0])
        encoded = peer.tokenizer(text).encodings[0]
        firsts = [encoded.word_ids.index(word) for word in sorted({*encoded.word_ids} - {None})]
        theirs = [(encoded.offsets[first][0], labels[shares[first].argmax()]) for first in firsts]
        ours = [(word.start, word.tag) for word in answer.words]
        off = np.abs([word.probability for word in answer.words] - shares[firsts].max(-1)) if ours == theirs else [1.0]
        found[text] = max(off)
    return found


def of_answers(model, peer):
    """The answer is the best span of the context, from the twenty best places for each end."""
    pairs, found = [pair for pair in (*PAIRS, ("he was " * 9, "so hungry")) if peer.fits(*pair)], {}
    for pair, answer in zip(pairs, model(pairs), strict=True):
        outputs, encoded = peer(*pair), peer.tokenizer(*pair).encodings[0]
        start, end = outputs.start_logits[0].numpy(), outputs.end_logits[0].numpy()
        last = len(start) - 1
        places = [number for number, part in enumerate(encoded.sequence_ids) if part == 1 and number != last]
        best = [set(np.argsort(-values, kind="stable")[:20]) for values in (start, end)]
        spans = {
            (a, b): start[a] + end[b]
            for a in places
            for b in places
            if a <= b < a + 30 and a in best[0] and b in best[1]
        }
        a, b = max(spans, key=spans.__getitem__)
        found[pair] = float((answer.start, answer.end) != (encoded.offsets[a][0], encoded.offsets[b][1]))
    return found


def of_choices(model, peer):
    texts, found = [text for text in TEXTS if peer.fits(text, "a " * 8)], {}
    for text, answer in zip(texts, model([(text, list(_CHOICES)) for text in texts]), strict=True):
        logits = []
        for choice in _CHOICES:
            with torch.no_grad():
                encoded = {name: values[None] for name, values in peer.encode(text, choice).items()}
                logits.append(float(peer.model(**encoded).logits[0, 0]))
        found[text] = np.abs(softmax(logits) - answer.probabilities).max()
    return found


def of_masks(model, peer):
    texts = [text for text in TEXTS if "[MASK]" in text and peer.fits(text)]
    found = {}
    for text, answer in zip(texts, model(texts), strict=True):
        encoded = peer.encode(text)
        logits = peer(text).logits[0][encoded["input_ids"][0] == peer.tokenizer.mask_token_id]
        shares = softmax(logits)
        worst = float(len(shares) != len(answer.masks))
        for of_mask, guesses in zip(shares, answer.masks, strict=False):
            worst = max(
                worst,
                *(
                    abs(of_mask[peer.tokenizer.convert_tokens_to_ids(each.token)] - each.probability)
                    for each in guesses
                ),
            )
        found[text] = worst
    return found


def of_next_sentence(model, peer):
    found = {}
    for pair, answer in zip(PAIRS, model(list(PAIRS)), strict=True):
        found[pair] = abs(softmax(peer(*pair).logits[0])[0] - answer.probability)
    return found


def of_replaced(model, peer):
    texts, found = [text for text in TEXTS if peer.fits(text)], {}
    for text, answer in zip(texts, model(texts), strict=True):
        shares = torch.sigmoid(peer(text).logits[0])[1:-1].numpy()
        tokens = peer.tokenizer.convert_ids_to_tokens(peer.encode(text)["input_ids"][0])[1:-1]
        ours = [each.probability for each in answer.tokens]
        found[text] = np.abs(shares - ours).max() if [each.token for each in answer.tokens] == tokens else 1.0
    return found


_COMPARE = {
    "ForSequenceClassification": of_classes,
    "ForTokenClassification": of_tags,
    "ForQuestionAnswering": of_answers,
    "ForMultipleChoice": of_choices,
    "ForMaskedLM": of_masks,
    "ForNextSentencePrediction": of_next_sentence,
    "ForPreTraining": of_replaced,
}


def assert_same_answers(model, folder, end):
    """Compares a model with the class of transformers for the same folder whose name ends so."""
    found = _COMPARE[end](model, Peer(folder, end))
    assert found
    worst = max(found, key=found.__getitem__)
    assert found[worst] < _TOLERANCE, f"off by {found[worst]} for {worst!r}"
