"""What hatchling asks while it builds: the wheel's page, which is the README with links that work
from anywhere."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)\[((?:[^\[\]]|!?\[[^\]]*\]\([^)]*\))*)\]\((?!https?:|#)([^)\s]+)\)")


def absolute(text: str, home: str) -> str:
    """The text with the repository's address in its relative links; without an address, their words
    alone."""

    def link(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        if not home:
            return "" if picture else words
        return f"{picture}[{words}]({home}/{'raw' if picture else 'blob'}/main/{target})"

    return LINK.sub(link, text)


class Page(MetadataHookInterface):
    """``readme`` and ``urls`` of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        home = self.config["home"]
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, home)}
        metadata["urls"] = {"Repository": home} if home else {}
