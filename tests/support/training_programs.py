"""The training programs by their names, as modules of other programs."""

from bert_keras.programs.command import PROGRAMS

check_labels = PROGRAMS["check_labels"]
run_classifier = PROGRAMS["run_classifier"]
run_few_shot = PROGRAMS["run_few_shot"]
run_ner = PROGRAMS["run_ner"]
run_pretraining = PROGRAMS["run_pretraining"]
run_reranker = PROGRAMS["run_reranker"]
run_sentence_vectors = PROGRAMS["run_sentence_vectors"]
run_squad = PROGRAMS["run_squad"]
