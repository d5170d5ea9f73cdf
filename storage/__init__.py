"""Reads and writes local files and object stores (gs://, s3://, hdfs://, ram://) with the same functions."""
