"""Training of rerankers: scores of texts for a query."""

from bert_keras.tasks.ability import Ability, one_of

ABILITIES = {
    "rerank": Ability(
        predictor="reranking.predictor.Reranker",
        answer="reranking.predictor.Ranking",
        graph="reranking.graph.RankModel",
        head="classifier",
        route="rerank",
        settings={"activation": one_of("sigmoid", "identity")},
        purpose="scores how well a text fits a query",
        texts=("query", "texts"),
        forms=("items", "ranks"),
        other_paths={"/rerank": "ranks"},
    ),
}
