"""Commands that judge changes, and that check such judgements."""
