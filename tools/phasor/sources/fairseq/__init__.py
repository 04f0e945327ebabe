"""Files of fairseq."""
