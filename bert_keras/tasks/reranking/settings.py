"""The settings of reranking."""

import dataclasses
from collections.abc import Sequence

from bert_keras.settings.effects import ON
from bert_keras.settings.fields import free, setting
from bert_keras.settings.groups import EvaluatedSettings, HeldOutSettings
from bert_keras.settings.numbers import ListedParser
from bert_keras.tasks.tables.settings import header_setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class RerankerSettings(EvaluatedSettings, HeldOutSettings):
    """The settings of run_reranker.py."""

    title = "Queries and texts"
    usage = """
    Trains a model that scores texts for a query, evaluates it and predicts.

        python run_reranker.py --do_train --do_eval --train_file=queries.csv --eval_file=dev.csv \\
            --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=reranker

    Files are tables: a query, a text that fits and others that do not, or a query, a text and a score. To resume an
    interrupted run, run the same command again. Without --do_train, the program uses the model in --output_dir.
    """

    train_file: str | None = free("Queries with texts to train on: .csv, .tsv, .txt (tabs) or .jsonl.", None)
    eval_file: str | None = free("Queries with texts to evaluate on.", None)
    predict_file: str | None = free("Queries with texts to write the scores of.", None)
    text_column: str | None = setting(
        "Column of the query. If not given: found by its name.", None, parser=ListedParser()
    )
    text_pair_column: str | None = setting(
        "Column of the text. If not given: found by its name.", None, parser=ListedParser()
    )
    label_column: str | None = setting(
        "Column of the score: 0 if the text does not fit, above 0 if it fits. If not given: found by its name.",
        None,
        parser=ListedParser(),
    )
    choice_columns: Sequence[str] = setting(
        "Columns of texts that do not fit, separated by commas. If not given: found by their names.", ()
    )
    has_header: str = header_setting()
    metric: str | None = free(
        "Metric that selects the best model: mrr_at_10, ndcg_at_10 or recall_at_10. If not given: mrr_at_10.", None
    )
    rerank_loss: str = setting(
        "bce: each text alone, whether it fits. listwise: which texts of a query fit best.",
        "listwise",
        choices=("bce", "listwise"),
    )
    mine_negatives: str | None = free(
        "Model for vectors that adds texts of {train_file} to each query: the most similar ones that do not fit. Also "
        "to {eval_file} if all of its texts fit.",
        None,
    )
    num_mined_negatives: int = setting(
        "Maximum number of texts that {mine_negatives} adds to a query.", 4, needs={"mine_negatives": ON}, lower_bound=1
    )
