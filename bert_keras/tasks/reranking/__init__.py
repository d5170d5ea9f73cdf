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
        page={
            "title": "Sort texts by a query",
            "purpose": "The model reads the query with each text and gives the text a score; higher is better.",
            "button": "Sort",
            "hasTable": False,
            "fields": {
                "query": {"label": "Query", "rows": 1},
                "texts": {"label": "Texts, one per line", "rows": 5, "isList": True},
            },
            "examples": [
                {
                    "name": "Password",
                    "query": "How do I get a new password?",
                    "texts": (
                        "The bank opens at nine.\nClick on Forgotten, and we send you a link to choose "
                        "another password.\nA good password has twelve characters.\nOur new shop sells "
                        "books."
                    ),
                },
            ],
        },
    ),
}
