"""Distillation: a small network, the student, learns from the outputs of a large one, the teacher."""
