"""Where the figures of docs/figures.md come from: ``python -m benchmarks`` lists the scripts."""
