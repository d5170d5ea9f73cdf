"""The number of steps: masked LM and left to right, at the checkpoints of one run each (figure 5 of the paper)."""

from studies.runner.study import Claim, Study, Variant

# The models without next sentence prediction of tasks_of_pretraining.py, so that both studies share them.
_MODEL = {"records": {"sentence_task": "next_sentence"}, "training": {"next_sentence_loss_weight": 0.0}}
_KINDS = {"masked LM": {}, "left to right": {"is_decoder": True}}
_QUARTERS = {1: "after 1/4 of the steps", 2: "after 1/2", 3: "after 3/4", 4: "after all steps"}


def _name(kind, quarter):
    return f"{kind} {_QUARTERS[quarter]}"


def _claim(text, better, worse, probe):
    return Claim(text, "appendix C.1, figure 5", better=_name(*better), worse=_name(*worse), probe=probe)


STUDY = Study(
    title="The number of steps (figure 5)",
    variants={
        _name(kind, quarter): Variant(config=config, quarter=quarter, **_MODEL)
        for kind, config in _KINDS.items()
        for quarter in _QUARTERS
    },
    probes=("mnli_small", "ner", "zorro"),
    claims=(
        *(
            _claim(f"all steps are better than half of them on {name}", ("masked LM", 4), ("masked LM", 2), probe)
            for probe, name in (("mnli_small", "MNLI-small"), ("ner", "CoNLL"), ("zorro", "Zorro"))
        ),
        *(
            _claim(
                f"masked LM is better than left to right {_QUARTERS[quarter]} on {name}",
                ("masked LM", quarter),
                ("left to right", quarter),
                probe,
            )
            for probe, name in (("mnli_small", "MNLI-small"), ("ner", "CoNLL"))
            for quarter in (1, 4)
        ),
    ),
)
