"""How much there is to read and to do in each notebook, and the minutes that follow: ``refresh.py
--count``.

Minutes of reading and running, to the nearest 5: the words of the text at 200 a minute, the lines
of code at 8 a minute, and a minute for each prediction. Minutes of the exercises: 5 for one star,
10 for two, 15 for three. What is folded counts only if it is text that goes on; descriptions of
pictures, the setup cell and classes of the package ("ours") need not be read.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import nbformat

from mnist_vit.course import exercises

HERE = Path(__file__).resolve().parent
WORDS, LINES = 200, 8  # a minute
STARS = {1: 5, 2: 10, 3: 15}  # minutes
TIME = re.compile(
    r"(?<=\*\*Time:\*\* )about \d+ minutes(?:, and about \d+ more for the exercises)?"
)
HEADING = re.compile(r"(?m)^(#+ .*?(★+)) *(?:\(about \d+ minutes\)|\(\d+ minutes\))?$")
DESCRIPTION = re.compile(
    r"<details>\s*<summary>The picture in words</summary>.*?</details>", re.DOTALL
)
OURS = re.compile(
    r"(?m)^class (MLP|MLPBlock|MultiHeadAttention|EncoderBlock|Encoder|VisionTransformer)\("
)


@dataclass
class Count:
    """What is in one notebook."""

    stem: str
    words: int  # of the text, without formulas
    code: int  # lines to read
    ours: int  # lines of the package that are shown, collapsed
    yours: int  # lines that the learner writes, if like our solutions
    predictions: int
    stars: list[int]  # of the exercises

    @property
    def minutes(self) -> int:
        """For reading and running."""
        return 5 * max(1, round((self.words / WORDS + self.code / LINES + self.predictions) / 5))

    @property
    def exercise_minutes(self) -> int:
        """For the exercises."""
        return sum(STARS[stars] for stars in self.stars)

    @property
    def time(self) -> str:
        """What the notebook says after **Time:**."""
        more = f", and about {self.exercise_minutes} more for the exercises" if self.stars else ""
        return f"about {self.minutes} minutes{more}"


def kind(cell: nbformat.NotebookNode) -> str:
    """What a code cell is: setup, exercise, check, ours or code."""
    tags = [tag.partition(":")[0] for tag in cell.metadata.get("tags", [])]
    found = next((tag for tag in tags if tag in ("setup", "exercise", "check")), "")
    return found or (
        "ours" if cell.metadata.get("cellView") == "form" or OURS.search(cell.source) else "code"
    )


def words_of(markdown: str) -> int:
    """The words that are read: no addresses, formulas, tags and descriptions of pictures."""
    for pattern in (
        DESCRIPTION,
        r"(?s)\$\$.*?\$\$|\$[^$\n]*\$|```.*?```",
        r"\]\([^)\s]*\)|<[^>\n]*>",
    ):
        markdown = re.sub(pattern, " ", markdown)
    return len(re.findall(r"[\w'’.]*[A-Za-z0-9][\w'’.-]*", markdown))


def count(path: Path) -> Count:
    """Count one notebook."""
    cells = nbformat.read(path, as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    lines = dict.fromkeys(("setup", "exercise", "check", "ours", "code"), 0)
    for cell in cells:
        if cell.cell_type == "code":
            lines[kind(cell)] += _lines(cell.source)
    return Count(
        stem=path.stem,
        words=words_of(text),
        code=lines["code"],
        ours=lines["ours"],
        yours=sum(_lines(exercise.source) for exercise in exercises(path.stem)),
        predictions=text.count("**Before you run it"),
        stars=[len(stars) for _, stars in HEADING.findall(text)],
    )


def _lines(source: str) -> int:
    return sum(1 for line in source.splitlines() if line.strip())


def with_minutes(text: str, counts: dict[str, Count], stem: str = "") -> str:
    """A Markdown text with the minutes put in: after **Time:**, beside the stars of exercises, in
    tables."""
    if stem:
        text = TIME.sub(counts[stem].time, text)
        text = HEADING.sub(lambda found: f"{found[1]} ({STARS[len(found[2])]} minutes)", text)
    return re.sub(
        r"(?m)^\| \[[^]]*\]\((?:notebooks/)?(\w+)\.ipynb\)[^|]*\|.*$",
        lambda row: _row(row, counts),
        text,
    )


def _row(row: re.Match[str], counts: dict[str, Count]) -> str:
    """A row with its last cells renewed: minutes; or, where the two before the end are numbers,
    also the exercises'."""
    one, cells = counts[row[1]], row[0].split(" | ")
    more = str(one.exercise_minutes) if one.stars else ""
    if re.fullmatch(r"\d* ?\|", cells[-1]) and re.fullmatch(r"\d+", cells[-2]):
        cells[-2:] = [str(one.minutes), f"{more} |".lstrip()]
    else:
        cells[-1] = f"{one.minutes} |"
    return " | ".join(cells)


def write(paths: list[Path]) -> None:
    """Put the minutes into these notebooks and into the README; the stored outputs stay."""
    counts = {path.stem: count(path) for path in sorted(HERE.glob("*.ipynb"))}
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = with_minutes(cell.source, counts, path.stem)
        nbformat.write(notebook, path)
    readme = HERE.parent / "README.md"
    readme.write_text(with_minutes(readme.read_text(encoding="utf-8"), counts), encoding="utf-8")


def main(names: list[str]) -> None:
    """Print the table, of all notebooks or those named; with ``--write`` also put the minutes into
    the texts."""
    chosen = [Path(name) for name in names if name != "--write"] or sorted(HERE.glob("*.ipynb"))
    counts = {path.stem: count(path) for path in chosen}
    print(
        f"{'notebook':<26}{'words':>6}{'code':>6}{'ours':>6}{'yours':>6}{'predict':>9}{'minutes':>9}"
        "  exercises"
    )
    for stem, one in counts.items():
        stars = " ".join("★" * stars for stars in one.stars)
        print(
            f"{stem:<26}{one.words:>6,}{one.code:>6}{one.ours:>6}{one.yours:>6}{one.predictions:>9}{one.minutes:>9}"
            f"  {stars + f' = {one.exercise_minutes} minutes' if stars else ''}".rstrip()
        )
    if "--write" in names:
        write(chosen)
