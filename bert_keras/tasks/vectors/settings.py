"""The settings of vectors of sentences."""

import dataclasses
from collections.abc import Sequence

from bert_keras.settings.fields import free, setting
from bert_keras.settings.groups import EvaluatedSettings, HeldOutSettings
from bert_keras.settings.numbers import ListedParser, NumberParser
from bert_keras.tasks.tables.settings import header_setting
from bert_keras.tasks.vectors import POOLINGS


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorSettings(EvaluatedSettings, HeldOutSettings):
    """The settings of run_sentence_vectors.py."""

    title = "Data and vectors"
    usage = """
    Trains vectors of texts: texts of similar meaning get similar vectors. Evaluates them and writes them.

        python run_sentence_vectors.py --do_train --do_eval --train_file=pairs.tsv --eval_file=STS-B/dev.tsv \\
            --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=vectors_model

    The columns of --train_file decide the loss: pairs and triplets are ranked among the texts of a batch, scored pairs
    teach the cosine, and single texts are recognized again under dropout (SimCSE). The columns of --eval_file decide
    the metrics: correlation, retrieval or clustering. To resume an interrupted run, run the same command again.
    """

    train_file: str | None = free(
        "Texts to train on: pairs or triplets, scored pairs, labelled inferences, or single texts. Table (.csv, .tsv, "
        ".jsonl), or .txt with a text a line.",
        None,
    )
    eval_file: str | None = free(
        "Texts to evaluate on: scored pairs for correlations, pairs for retrieval, texts with classes for clustering.",
        None,
    )
    predict_file: str | None = free("Texts to write the vectors of, or pairs for their cosines.", None)
    text_columns: Sequence[str] = free(
        "Columns of the texts: one; two that belong together; further columns do not belong to the first. If not "
        "given: found by their names, with scores and labels.",
        (),
    )
    score_column: str | None = free("Column with the score of each pair.", None, parser=ListedParser())
    label_column: str | None = free(
        "Column with the class of each text, or the inference of each pair.", None, parser=ListedParser()
    )
    has_header: str = header_setting(free)
    pooling: str = setting(
        "How the vectors of tokens become one: that of [CLS], mean, maximum.", "mean", choices=POOLINGS
    )
    normalize: bool = setting("Give all vectors the length 1.", True)
    prefix: str = setting('Text before each text, such as "query: ". The model stores it.', "")
    scale: float = setting(
        "Factor of the cosines in the ranking loss, 1 / temperature.", 20.0, parser=NumberParser(0.01)
    )
    max_score: float | None = setting(
        "Score of two texts of the same meaning. If not given: the highest in {train_file}.",
        None,
        parser=NumberParser(0.01),
    )

    @property
    def text_column(self) -> str | None:
        """The column of a text, or of the first text of a pair, if it was given."""
        return self.text_columns[0] if self.text_columns else None

    @property
    def text_pair_column(self) -> str | None:
        """The column of the second text of a pair, if it was given."""
        return self.text_columns[1] if len(self.text_columns) > 1 else None
