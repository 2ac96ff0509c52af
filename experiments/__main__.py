"""``python -m experiments NAME …``: see ``tools/runner.py``."""

from tools.runner import main

main("experiments")
