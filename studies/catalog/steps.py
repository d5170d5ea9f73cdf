"""The number of steps: masked LM and left to right, at the checkpoints of one run each (figure 5 of the paper)."""

from studies.runner.study import Claim, Study, Variant

_MASKED, _LEFT = "masked LM", "left to right"
_CONFIGS = {_MASKED: {}, _LEFT: {"is_decoder": True}}
# The same text is read many times.
_RECORDS = {"dynamic_masking": True, "dupe_factor": 1}
_SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
_RANDOM = "random weights"
_TASKS = {"sst2": "SST-2", "ner": "CoNLL", "zorro": "Zorro", "blimp": "BLiMP"}


def _name(kind, share):
    return f"{kind} after {share:.0%} of the steps"


_ALL = _name(_MASKED, 1.0)
STUDY = Study(
    title="The number of steps (figure 5)",
    variants={
        _RANDOM: Variant(is_trained=False),
        **{
            _name(objective, share): Variant(config=config, records=_RECORDS, share=share, saved_share=0.01)
            for objective, config in _CONFIGS.items()
            for share in _SHARES
        },
    },
    probes=("bits_per_byte", "zorro", "blimp", "sst2", "mnli_small", "ner"),
    claims=(
        *(
            Claim(f"{text} on {name}", source, _ALL, worse, probe)
            for text, source, worse in (
                ("all steps are better than 30 % of them", "appendix C.1, figure 5", _name(_MASKED, 0.3)),
                ("pre-trained weights are better than random ones", "section 1", _RANDOM),
            )
            for probe, name in _TASKS.items()
        ),
        *(
            Claim(
                f"masked LM is better than left to right after {share:.0%} of the steps on {name}",
                "appendix C.1, figure 5",
                _name(_MASKED, share),
                _name(_LEFT, share),
                probe,
            )
            for share in (0.1, 1.0)
            for probe, name in (("mnli_small", "MNLI-small"), ("ner", "CoNLL"))
        ),
    ),
)
