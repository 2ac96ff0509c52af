"""Write ``notebooks/solutions`` anew, from the sources of the checks."""

from mnist_vit.course import exercises, rooms, solutions

from . import NOTEBOOKS


def main(words: list[str]) -> None:
    """Write one file for each notebook that has exercises."""
    for room in rooms():
        if exercises(room):
            path = NOTEBOOKS / "solutions" / f"{room}.py"
            path.write_text(solutions(room), encoding="utf-8")
