"""One run = one folder named by the hash of its settings: record, terms, checkpoints, weights."""
