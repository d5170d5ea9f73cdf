"""Files that evaluate_predictions.py scores, and the flags that name them."""

MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + "".join(
    f'{label}\t1\t2\tA "text\tanother\n' for label in (1, 1, 0, 1)
)
MRPC_FLAGS = ("--task=mrpc", "--data_file=dev.tsv", "--predictions_file=p.tsv")
SQUAD_FLAGS = ("--task=squad", "--data_file=gold.json", "--predictions_file=predictions.json")
