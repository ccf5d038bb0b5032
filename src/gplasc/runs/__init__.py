"""One run: from a request to a record in a folder."""
