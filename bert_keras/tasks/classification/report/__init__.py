"""What a run of classification reports: tables, the page, and the words behind errors."""
