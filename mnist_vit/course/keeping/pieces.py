"""The pieces of ``my_vit.py``, in the order in which they stand there, each with what stands in for
it."""

from dataclasses import dataclass


class NotKept(Exception):
    """Why an answer is not put into ``my_vit.py``: a sentence without its beginning, as in "not
    kept: <this>"."""


@dataclass(frozen=True)
class Piece:
    """An exercise whose answer becomes a section of ``my_vit.py``.

    Attributes:
        notebook: its number, two digits.
        exercise: what follows ``check.``
        name: what the answer is called in the file.
        module, original: the package's own, which stands in while the exercise is not solved.
    """

    notebook: str
    exercise: str
    name: str
    module: str
    original: str

    @property
    def ours(self) -> str:
        """The line of the file that lets ours stand in."""
        called = "" if self.original == self.name else f" as {self.name}"
        return f"from {self.module} import {self.original}{called}  # ours, until yours is kept"

    @property
    def header(self) -> str:
        """The line above its section, by which the section is found again."""
        return f"# ---- {self.name}: notebook {self.notebook}, exercise {self.exercise} ".ljust(
            88, "-"
        )


_COURSE = "mnist_vit.course"
_ALL = (
    Piece("00", "patchify", "my_patchify", f"{_COURSE}.nb00_start_here.patchify", "my_patchify"),
    Piece("01", "mlp_block", "MyMLPBlock", "mnist_vit.model", "MLPBlock"),
    Piece("02", "attention", "my_attention", f"{_COURSE}.nb02_attention.attention", "my_attention"),
    Piece(
        "03",
        "split_heads",
        "my_split_heads",
        f"{_COURSE}.nb03_multi_head_attention.split_heads",
        "my_split_heads",
    ),
    Piece(
        "03",
        "multi_head_attention",
        "MyMultiHeadAttention",
        "mnist_vit.model",
        "MultiHeadAttention",
    ),
    Piece("04", "encoder_block", "MyEncoderBlock", "mnist_vit.model", "EncoderBlock"),
    Piece("05", "encoder", "MyEncoder", "mnist_vit.model", "Encoder"),
    Piece(
        "06", "vision_transformer", "MyVisionTransformer", "mnist_vit.model", "VisionTransformer"
    ),
)
PIECES = {piece.name: piece for piece in _ALL}
BY_EXERCISE = {piece.exercise: piece for piece in _ALL}
