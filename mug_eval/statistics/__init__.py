"""Intervals and paired comparisons of scores: what a number is worth."""
