"""What a call returns, as a notebook shows it: a short line, curves, something to click."""

import html
import os
from pathlib import Path
from typing import Any

__all__ = ["History", "Page"]


class History(list[dict[str, float]]):
    """The epochs of a training, one dict each, see ``training.fit``; a notebook shows their curves."""

    def __repr__(self) -> str:
        if not self:
            return "History of 0 epochs"
        last = self[-1]
        return (f"History of {len(self)} epochs: loss {last['loss']:.4f}, "
                f"validation accuracy {last['validation_accuracy']:.2%}")  # fmt: skip

    def plot(self) -> Any:
        """Loss and accuracy of each epoch in two panels; returns the matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 2.6), layout="constrained")
        for axes, kind, unit in zip(figure.subplots(1, 2), ("loss", "accuracy"), (" (nats)", ""), strict=True):
            for key, label in ((kind, "training batches"), (f"validation_{kind}", "validation")):
                axes.plot([row["epoch"] for row in self], [row[key] for row in self], marker=".", label=label)
            axes.set(xlabel="epoch", ylabel=kind + unit)
            axes.legend()
        return figure

    def _repr_html_(self) -> str:
        return f"{html.escape(repr(self))}<br>{_curve(self, 'loss')} {_curve(self, 'accuracy')}"


class Page(type(Path())):  # type: ignore[misc]
    """The path of a page, which a notebook shows as a link."""

    def _repr_html_(self) -> str:
        try:
            link = Path(os.path.relpath(self)).as_posix()  # a server shows what lies below its folder
        except ValueError:  # another drive
            link = self.as_uri()
        return f'<a href="{html.escape(link)}" target="_blank">{html.escape(link)}</a>'


def _curve(rows: list[dict[str, float]], kind: str) -> str:
    """One SVG picture: the validation's curve drawn out, that of the training batches dashed."""
    width, height, keys = 240, 90, (kind, f"validation_{kind}")
    top = 1.0 if kind == "accuracy" else max([row[key] for row in rows for key in keys], default=1.0) or 1.0
    lines = ""
    for key, dashes in zip(keys, ("3", "none"), strict=True):
        points = " ".join(
            f"{(i + 0.5) * width / len(rows):.0f},{height - row[key] / top * height:.0f}" for i, row in enumerate(rows)
        )
        lines += f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-dasharray="{dashes}"/>'
    title = f"{kind} of {len(rows)} epochs, 0 to {top:.3g}; dashed: training batches"
    return (f'<svg width="{width}" height="{height + 20}" role="img"><title>{title}</title>{lines}<text x="0" '
            f'y="{height + 14}" font-size="11" fill="currentColor">{kind}, 0 to {top:.3g}</text></svg>')  # fmt: skip
