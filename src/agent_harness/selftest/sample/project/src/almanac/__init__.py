"""Years, months and numerals."""
