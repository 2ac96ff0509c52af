"""What a call returns, as a notebook shows it: a short line, curves, something to click."""

import html
import io
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
        """Loss (in nats) and accuracy of each epoch in two panels; returns the matplotlib figure."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 2.6), layout="constrained")
        for axes, kind in zip(figure.subplots(1, 2), ("loss", "accuracy"), strict=True):
            for key, label in ((kind, "training batches"), (f"validation_{kind}", "validation")):
                axes.plot([row["epoch"] for row in self], [row[key] for row in self], marker=".", label=label)
            axes.set(xlabel="epoch", ylabel=kind)
            axes.legend()
        return figure

    def _repr_png_(self) -> bytes:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        picture = io.BytesIO()
        FigureCanvasAgg(self.plot()).print_png(picture)
        return picture.getvalue()


class Page(type(Path())):  # type: ignore[misc]
    """The path of a page, which a notebook shows as a link."""

    def _repr_html_(self) -> str:
        link = Path(os.path.relpath(self)).as_posix()  # a server shows what lies below its folder
        return f'<a href="{html.escape(link)}" target="_blank">{html.escape(link)}</a>'
