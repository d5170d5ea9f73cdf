"""Files of this machine and of object stores (gs://, s3://, hdfs://, ram://), read and written in one way."""
