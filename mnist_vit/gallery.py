"""The page that shows saved attention maps in a browser."""

import base64
import html
import json
from pathlib import Path

from .files import write_text

__all__ = ["write_gallery"]


def write_gallery(folder: str | Path, names: list[str], title: str) -> Path:
    """Write ``index.html``: all pictures inside it, plain HTML, no network, readable by keyboard and in the dark.

    Args:
        folder: where ``attention.save_attention_images`` has written a folder for each image.
        names: those of the folders to show.
        title: the heading of the page.
    """
    folder = Path(folder)
    sections: list[str] = []
    links: list[str] = []
    for name in names:
        target = folder / name
        drawn = json.loads((target / "attention.json").read_text(encoding="utf-8"))
        truth = "" if drawn["label"] is None else f", truth {drawn['label']}"
        head = f"{name}: read as {drawn['prediction']} with probability {drawn['probability']:.3f}{truth}"
        shown = [("image.png", f"the image {name}", "image")]
        for layer, heads in enumerate(drawn["share_of_attention_on_ink"]):
            for number, share in enumerate(heads):
                most = _brightest(drawn["layers_heads_rows_columns"][layer][number])
                text = f"layer {layer}, head {number}: {share:.0%} on ink, {most}"
                shown.append((f"layer_{layer}_head_{number}.png", f"attention of the class token, {text}", text))
        text = f"rollout: {_brightest(drawn['rollout'])}"
        shown.append(("rollout.png", f"attention of the class token over all layers, {text}", text))
        figures = "".join(
            f'<figure><img src="data:image/png;base64,{base64.b64encode((target / file).read_bytes()).decode()}" '
            f'alt="{html.escape(alt)}" width="140" height="140"><figcaption>{html.escape(text)}</figcaption></figure>'
            for file, alt, text in shown
        )
        note = f"{drawn['share_of_patches_with_ink']:.0%} of the patches hold ink"
        anchor = f"image-{len(sections)}"
        links.append(f'<a href="#{anchor}">{html.escape(name)}</a>')
        sections.append(
            f'<section id="{anchor}"><h2>{html.escape(head)}</h2><p>{note}.</p><div>{figures}</div></section>\n'
        )
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title>\n<style>:root{{color-scheme:light dark}}"
        "body{font:1rem/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}"
        "div,nav{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0;width:140px}img{image-rendering:pixelated}"
        f"h2{{font-size:1.1rem}}</style></head>\n<body><h1>{html.escape(title)}</h1>\n"
        "<p>Each map shows where the class token looks: bright is much, dark little, one colour scale within a layer. "
        "The weights of a map, with that of the class token itself, sum to 1. Layers, heads, rows and columns count "
        f'from 0.</p>\n<nav aria-label="images">{"".join(links)}</nav>\n'
        f"<main>{''.join(sections)}</main></body></html>\n"
    )
    return write_text(folder / "index.html", page)


def _brightest(one_map: list[list[float]]) -> str:
    """Where a map is brightest, for who does not see it; rows and columns of patches count from 0."""
    cells = [(value, -row, -column) for row, line in enumerate(one_map) for column, value in enumerate(line)]
    _, row, column = max(cells)  # the first of those that are equally bright
    return f"most in row {-row}, column {-column}"
