"""How much there is to read and to do in each notebook, and the minutes that follow.

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

from . import ROOT, notebooks

WORDS = 200  # a minute
LINES = 8  # a minute
STARS = {1: 5, 2: 10, 3: 15}  # minutes
TIME = re.compile(
    r"(?<=\*\*Time:\*\* )about \d+ minutes(?:, and about \d+ more for the exercises)?"
)
HEADING = re.compile(r"(?m)^(#+ .*?(★+)) *(?:\(about \d+ minutes\)|\(\d+ minutes\))?$")
DESCRIPTION = re.compile(
    r"<details>\s*<summary>The picture in words</summary>.*?</details>", re.DOTALL
)
ROW = re.compile(r"(?m)^\| \[[^]]*\]\((?:notebooks/)?(\w+)\.ipynb\)[^|]*\|.*$")
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
        text = f"about {self.minutes} minutes"
        if self.stars:
            text += f", and about {self.exercise_minutes} more for the exercises"
        return text


def kind(cell: nbformat.NotebookNode) -> str:
    """What a code cell is: setup, exercise, check, ours or code."""
    for tag in cell.metadata.get("tags", []):
        name = tag.partition(":")[0]
        if name in ("setup", "exercise", "check"):
            return name
    if cell.metadata.get("cellView") == "form" or OURS.search(cell.source):
        return "ours"
    return "code"


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
            lines[kind(cell)] += lines_of(cell.source)
    return Count(
        stem=path.stem,
        words=words_of(text),
        code=lines["code"],
        ours=lines["ours"],
        yours=sum(lines_of(exercise.source) for exercise in exercises(path.stem)),
        predictions=text.count("**Before you run it"),
        stars=[len(stars) for _, stars in HEADING.findall(text)],
    )


def lines_of(source: str) -> int:
    return sum(1 for line in source.splitlines() if line.strip())


def with_minutes(text: str, counts: dict[str, Count], stem: str = "") -> str:
    """A Markdown text with the minutes after **Time:**, beside stars of exercises, in tables."""
    if stem:
        text = TIME.sub(counts[stem].time, text)
        text = HEADING.sub(lambda found: f"{found[1]} ({STARS[len(found[2])]} minutes)", text)
    return ROW.sub(lambda row: renewed(row, counts), text)


def renewed(row: re.Match[str], counts: dict[str, Count]) -> str:
    """A row with its minutes renewed; where its last two cells are numbers, the exercises' too."""
    one = counts[row[1]]
    cells = row[0].split(" | ")
    more = str(one.exercise_minutes) if one.stars else ""
    if re.fullmatch(r"\d* ?\|", cells[-1]) and re.fullmatch(r"\d+", cells[-2]):
        cells[-2:] = [str(one.minutes), f"{more} |".lstrip()]
    else:
        cells[-1] = f"{one.minutes} |"
    return " | ".join(cells)


def write(paths: list[Path]) -> None:
    """Put the minutes into these notebooks and into the README; the stored outputs stay."""
    counts = {path.stem: count(path) for path in notebooks()}
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = with_minutes(cell.source, counts, path.stem)
        nbformat.write(notebook, path)
    readme = ROOT / "README.md"
    readme.write_text(with_minutes(readme.read_text(encoding="utf-8"), counts), encoding="utf-8")


def main(words: list[str]) -> None:
    """Print the table; with ``--write`` also put the minutes into the texts."""
    chosen = [Path(word) for word in words if word != "--write"] or notebooks()
    print(table(chosen))
    if "--write" in words:
        write(chosen)


def table(paths: list[Path]) -> str:
    """The counts of some notebooks."""
    heads = ("words", "code", "ours", "yours", "predict", "minutes")
    lines = [f"{'notebook':<26}{'  '.join(f'{head:>7}' for head in heads)}  exercises"]
    for one in map(count, paths):
        numbers = (one.words, one.code, one.ours, one.yours, one.predictions, one.minutes)
        line = f"{one.stem:<26}{'  '.join(f'{number:>7,}' for number in numbers)}"
        if one.stars:
            stars = " ".join("★" * number for number in one.stars)
            line += f"  {stars} = {one.exercise_minutes} minutes"
        lines.append(line)
    return "\n".join(lines)
