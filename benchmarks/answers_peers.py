"""Models of transformers and sentence-transformers, and their functions from texts to answers, for `answers.py`.

Each class has a task. `fastest` answers texts in batches of similar lengths with a chosen number of texts. `default`
does it as the documentation of the library does, in its own number format. Both keep the order of the texts.
"""

import copy
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers

TAGS = ("O", "B-LOC", "I-LOC", "B-MISC", "I-MISC", "B-ORG", "I-ORG", "B-PER", "I-PER")
# Windows of questions, as in the defaults of this project for models of transformers.
_LONGEST_WINDOW, _OVERLAP, _LONGEST_ANSWER = 384, 128, 30


class Peer:
    """A model with a head whose weights are random, always the same, in a folder that both libraries open."""

    model_class = "AutoModelForSequenceClassification"
    pipeline, pipeline_options = "text-classification", {"top_k": None}
    labels = ("no", "yes")
    longest = 512
    # Whether an answer is a part of the text, and another one as soon as a number rounds differently.
    finds_parts = False

    def __init__(self, checkpoint, folder, precision):
        self.folder = str(folder)
        torch.manual_seed(0)
        names = {} if self.labels is None else {"id2label": dict(enumerate(self.labels))}
        self.model = getattr(transformers, self.model_class).from_pretrained(
            checkpoint, attn_implementation="sdpa", dtype=torch.float32, **names
        )
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
        self.change_head()
        self.save(checkpoint)
        self.default_model = self.model.eval()
        self.model = self.network = copy.deepcopy(self.model).to(getattr(torch, precision))

    def change_head(self):
        """Changes the random head where answers need it."""

    def save(self, checkpoint):
        """Writes the folder."""
        self.model.save_pretrained(self.folder)
        self.tokenizer.save_pretrained(self.folder)
        vocabulary = pathlib.Path(checkpoint, "vocab.txt").read_bytes()
        pathlib.Path(self.folder, "vocab.txt").write_bytes(vocabulary)

    def compile(self, is_compiled):
        """Turns `torch.compile` for any length on or off."""
        self.network = torch.compile(self.model, dynamic=True) if is_compiled else self.model

    def encode(self, texts):
        """Returns the encodings of the sequences of all texts."""
        return self.tokenizer(texts, truncation=True, max_length=self.longest)

    @torch.inference_mode()
    def fastest(self, texts, batch_size):
        encoded = self.encode(texts)
        lengths = [len(ids) for ids in encoded["input_ids"]]
        order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
        outputs = [None] * len(order)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            names = ("input_ids", "token_type_ids", "attention_mask")
            batch = self.tokenizer.pad(
                {name: [encoded[name][row] for row in rows] for name in names}, return_tensors="pt"
            )
            for row, output in zip(rows, self.outputs(self.network(**batch)), strict=True):
                outputs[row] = output
        return self.answers(texts, encoded, outputs)

    def outputs(self, found):
        """Returns the part of the network's outputs that answers need, a row for each sequence."""
        return found.logits.float().softmax(-1).numpy()

    def answers(self, texts, encoded, outputs):
        """Returns an answer for each text."""
        return [dict(zip(self.labels, row.tolist(), strict=True)) for row in outputs]

    def default(self, texts):
        if not hasattr(self, "_pipeline"):
            options = {"model": self.default_model, "tokenizer": self.tokenizer, "device": "cpu"}
            self._pipeline = transformers.pipeline(self.pipeline, **options, **self.pipeline_options)
        return self._pipeline(texts)

    def comparable(self, answer):
        """Returns the numbers of an answer of `fastest`, to compare with `own_values`."""
        return [answer["yes"]]

    def own_values(self, answer):
        return [answer.probabilities["yes"]]


class Classes(Peer):
    """The probabilities of two classes."""


class Tags(Peer):
    """Entities: the tag of a word is that of its first token. Most tags are O, as in texts."""

    model_class, labels, finds_parts = "AutoModelForTokenClassification", TAGS, True
    pipeline, pipeline_options = "token-classification", {"aggregation_strategy": "first"}

    def change_head(self):
        with torch.no_grad():
            self.model.classifier.weight *= 4
            self.model.classifier.bias[0] = 1.0

    def encode(self, texts):
        return self.tokenizer(texts, truncation=True, max_length=self.longest, return_offsets_mapping=True)

    def outputs(self, found):
        best = found.logits.float().softmax(-1).max(-1)
        return list(zip(best.indices.numpy(), best.values.numpy(), strict=True))

    def answers(self, texts, encoded, outputs):
        return [self._entities(text, encoded[row], *outputs[row]) for row, text in enumerate(texts)]

    def _entities(self, text, encoding, tags, scores):
        entities, before = [], None
        for place, word in enumerate(encoding.word_ids):
            if word is None:
                continue
            start, end = encoding.offsets[place]
            if word == before:
                if entities and entities[-1]["last_word"] == word:
                    entities[-1]["end"] = end
                continue
            mark, _, type_ = self.labels[tags[place]].partition("-")
            is_next = entities and entities[-1]["last_word"] == before and entities[-1]["type"] == type_
            if mark == "I" and is_next:
                entities[-1] |= {"end": end, "last_word": word}
                entities[-1]["score"] = min(entities[-1]["score"], float(scores[place]))
            elif mark != "O":
                entities.append({"type": type_, "start": start, "end": end, "last_word": word})
                entities[-1]["score"] = float(scores[place])
            before = word
        return [entity | {"word": text[entity["start"] : entity["end"]]} for entity in entities]

    def comparable(self, answer):
        return [value for entity in answer for value in (entity["start"], entity["end"], entity["score"])]

    def own_values(self, answer):
        return [value for entity in answer.entities for value in (entity.start, entity.end, entity.probability)]


class Reranker(Peer):
    """Scores of texts for a query, with a CrossEncoder of sentence-transformers."""

    labels = ("score",)

    def save(self, checkpoint):
        super().save(checkpoint)
        from sentence_transformers import CrossEncoder

        self.encoder = CrossEncoder(self.folder, device="cpu")
        self.encoder.save_pretrained(self.folder)  # with its activation

    def encode(self, texts):
        pairs = [(query, text) for query, others in texts for text in others]
        queries, others = map(list, zip(*pairs, strict=True))
        return self.tokenizer(queries, others, truncation=True, max_length=self.longest)

    def outputs(self, found):
        return found.logits[:, 0].float().sigmoid().tolist()

    def answers(self, texts, encoded, outputs):
        scores, answers = iter(outputs), []
        for _, others in texts:
            scored = [{"text": text, "score": next(scores)} for text in others]
            answers.append(sorted(scored, key=lambda result: -result["score"]))
        return answers

    def default(self, texts):
        pairs = [(query, text) for query, others in texts for text in others]
        return self.answers(texts, None, self.encoder.predict(pairs).tolist())

    def comparable(self, answer):
        return [result["score"] for result in answer]

    def own_values(self, answer):
        return [text.score for text in answer.texts]


class Questions(Peer):
    """The best span of a context. transformers 5 has no pipeline for it; the default is one question at a time."""

    model_class, labels, longest = "AutoModelForQuestionAnswering", None, _LONGEST_WINDOW
    finds_parts = True

    def change_head(self):
        with torch.no_grad():
            self.model.qa_outputs.weight *= 4

    def encode(self, texts):
        questions, contexts = map(list, zip(*texts, strict=True))
        return self.tokenizer(
            questions,
            contexts,
            truncation="only_second",
            max_length=self.longest,
            stride=_OVERLAP,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )

    def outputs(self, found):
        logits = torch.stack((found.start_logits, found.end_logits), 1).float()
        return list(logits.numpy())

    def answers(self, texts, encoded, outputs):
        answers = [{"score": -np.inf, "text": ""} for _ in texts]
        for row, (start, end) in enumerate(outputs):
            encoding, number = encoded[row], encoded["overflow_to_sample_mapping"][row]
            places = np.flatnonzero(np.array(encoding.type_ids) * (1 - np.array(encoding.special_tokens_mask)))
            scores = start[places][:, None] + end[places]
            scores = np.where(_is_span(len(places)), scores, -np.inf)
            first, last = np.unravel_index(int(scores.argmax()), scores.shape)
            if scores[first, last] > answers[number]["score"]:
                span = encoding.offsets[places[first]][0], encoding.offsets[places[last]][1]
                answers[number] = {"score": float(scores[first, last]), "text": texts[number][1][slice(*span)]}
        return answers

    def default(self, texts):
        network, self.network = self.network, self.default_model
        try:
            return [self.fastest([text], 1)[0] for text in texts]
        finally:
            self.network = network

    def comparable(self, answer):
        return answer["text"]

    def own_values(self, answer):
        return answer.text


def _is_span(num_places):
    """Returns which spans [first, last] an answer may have."""
    places = np.arange(num_places)
    lengths = places - places[:, None]
    return (lengths >= 0) & (lengths < _LONGEST_ANSWER)


class Vectors:
    """Vectors of texts with sentence-transformers, which sorts texts by length itself."""

    finds_parts = False

    def __init__(self, checkpoint, folder, precision):
        from sentence_transformers import SentenceTransformer

        self.folder = str(checkpoint)
        self.default_encoder = SentenceTransformer(self.folder, device="cpu")
        self.encoder = SentenceTransformer(self.folder, device="cpu", model_kwargs={"attn_implementation": "sdpa"})
        self.encoder.to(getattr(torch, precision))
        self._model = self.encoder[0].model if hasattr(self.encoder[0], "model") else self.encoder[0].auto_model

    def compile(self, is_compiled):
        """Turns `torch.compile` for any length on or off."""
        forward = type(self._model).forward.__get__(self._model)
        self._model.forward = torch.compile(forward, dynamic=True) if is_compiled else forward

    def fastest(self, texts, batch_size):
        return self.encoder.encode(texts, batch_size=batch_size, show_progress_bar=False)

    def default(self, texts):
        return self.default_encoder.encode(texts, show_progress_bar=False)

    def comparable(self, answer):
        return answer.tolist()

    def own_values(self, answer):
        return answer.vector


PEERS = {"vectors": Vectors, "classes": Classes, "tags": Tags, "reranker": Reranker, "questions": Questions}
