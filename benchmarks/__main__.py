"""``python -m benchmarks NAME …``: see ``tools/runner.py``."""

from tools.runner import main

main("benchmarks")
