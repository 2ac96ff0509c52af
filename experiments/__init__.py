"""What writes ``notebooks/results``: ``python -m experiments`` lists the scripts."""
