"""How much there is to read and to do in each notebook, and the minutes that follow.

Minutes of reading and running, to the nearest 5: the words of the text at 200 a minute, the lines
of code at 8 a minute, and a minute for each prediction. Minutes of the exercises: 5 for one star,
10 for two, 15 for three, an hour for four. What is folded counts only if it is text that goes on;
descriptions of pictures, the setup cell and classes of the package ("ours") need not be read.

The core of a notebook ends at its heading "More". These are estimates; no class was measured.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import nbformat

from mnist_vit.course import exercises

from . import ROOT, notebooks

WORDS = 200  # a minute
LINES = 8  # a minute
ENDS = ("06", "12")  # the model is built; the course ends, and what is optional begins
STARS = {1: 5, 2: 10, 3: 15, 4: 60}  # minutes
MORE = re.compile(r"(?m)^## More$")
TIME = re.compile(
    r"(?<=\*\*Time:\*\* )about \d+ minutes(?:, and about \d+ more for the exercises)?"
    r"(?:; below \*More\*, about \d+ more)?"
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
class Part:
    """What is in a part of a notebook, its core or what follows it.

    Attributes:
        words: of the text, without formulas.
        code: lines to read.
        ours: lines of the package that are shown, collapsed.
        yours: lines that the learner writes, if like our solutions.
        predictions: their number.
        stars: of the exercises.
    """

    words: int
    code: int
    ours: int
    yours: int
    predictions: int
    stars: list[int]

    @property
    def minutes(self) -> int:
        """For reading and running."""
        return 5 * round((self.words / WORDS + self.code / LINES + self.predictions) / 5)

    @property
    def exercise_minutes(self) -> int:
        """For the exercises."""
        return sum(STARS[stars] for stars in self.stars)

    @property
    def all_minutes(self) -> int:
        """For everything."""
        return self.minutes + self.exercise_minutes


@dataclass
class Count:
    """What is in one notebook: its core, and what can be left out."""

    stem: str
    core: Part
    more: Part

    @property
    def time(self) -> str:
        """What the notebook says after **Time:**."""
        text = f"about {self.core.minutes} minutes"
        if self.core.stars:
            text += f", and about {self.core.exercise_minutes} more for the exercises"
        if self.more.all_minutes:
            text += f"; below *More*, about {self.more.all_minutes} more"
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
    end = len(cells)
    for number, cell in enumerate(cells):
        if cell.cell_type == "markdown" and MORE.search(cell.source):
            end = number
            break
    return Count(path.stem, part_of(cells[:end], path.stem), part_of(cells[end:], path.stem))


def part_of(cells: list[nbformat.NotebookNode], stem: str) -> Part:
    """Count some cells of a notebook."""
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    lines = dict.fromkeys(("setup", "exercise", "check", "ours", "code"), 0)
    stubs = []
    for cell in cells:
        if cell.cell_type == "code":
            lines[kind(cell)] += lines_of(cell.source)
            stubs += [tag.partition(":")[2] for tag in cell.metadata.get("tags", [])]
    solutions = [one.source for one in exercises(stem) if one.name in stubs]
    return Part(
        words=words_of(text),
        code=lines["code"],
        ours=lines["ours"],
        yours=sum(map(lines_of, solutions)),
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
    more = str(one.core.exercise_minutes) if one.core.stars else ""
    if re.fullmatch(r"\d* ?\|", cells[-1]) and re.fullmatch(r"\d+", cells[-2]):
        cells[-2:] = [str(one.core.minutes), f"{more} |".lstrip()]
    else:
        cells[-1] = f"{one.core.minutes} |"
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
    """The counts of some notebooks, a line for the core and one for what follows it."""
    heads = ("words", "code", "ours", "yours", "predict", "read", "minutes")
    lines = [f"{'notebook':<26}{'  '.join(f'{head:>7}' for head in heads)}  exercises"]
    total = 0
    for one in map(count, paths):
        lines.append(_line(one.stem, one.core))
        if one.more.all_minutes:
            lines.append(_line("   more", one.more))
        total += one.core.all_minutes
        if one.stem[:2] in ENDS:
            lines.append(f"core up to here: {total} minutes, {total / 60:.1f} hours")
    return "\n".join([*lines, f"core of all: {total} minutes, {total / 60:.1f} hours"])


def _line(name: str, part: Part) -> str:
    numbers = [part.words, part.code, part.ours, part.yours, part.predictions]
    numbers += [part.minutes, part.all_minutes]
    stars = " ".join("★" * number for number in part.stars)
    return f"{name:<26}{'  '.join(f'{number:>7,}' for number in numbers)}  {stars}".rstrip()
