"""Numbers to judgements: metrics and the content of report files."""
