"""The pre-trainings of BERT's variants: their losses, and what these need beyond a model."""
