"""``python -m tools COMMAND …``: what maintainers run after a change."""

import importlib
import sys

COMMANDS = {
    "outputs": "run notebooks and store their outputs: outputs [NOTEBOOK …]",
    "solutions": "write notebooks/solutions anew",
    "quotes": "put the package's classes into the notebooks that quote them",
    "stamp": "write the course's address into setup cells and badges",
    "count": "count words, code and exercises: count [--write] [NOTEBOOK …]",
    "own": "count the statements of my_vit.py that no stub and no table gives",
    "figures": "put measured figures into README and docs: figures [--check]",
    "unsolved": "make a wheel without the text of the solutions: unsolved WHEEL",
    "blur": "draw docs/blur.png, what the augmentation does to an image",
    "contest": "put the contest of maps into docs/relevance.md, and draw its curves",
    "picture": "take the README's picture",
}


def main(words: list[str]) -> None:
    """Run one command, or list them."""
    if words and words[0] in COMMANDS:
        importlib.import_module(f"tools.{words[0]}").main(words[1:])
        return
    print("usage: python -m tools COMMAND\n")
    for name, does in COMMANDS.items():
        print(f"{name:<11}{does}")
    if words and words[0] not in ("-h", "--help"):
        sys.exit(f"\nthere is no command {words[0]!r}")


if __name__ == "__main__":
    main(sys.argv[1:])
