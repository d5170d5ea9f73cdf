"""A look at the files of a run before it begins, without TensorFlow: `--dry_run`, and the check of every run."""
