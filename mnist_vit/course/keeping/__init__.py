"""The learner's own file, ``my_vit.py``: every piece whose check said "correct", ours where one is
missing.

``pieces`` names the pieces and what stands in; ``sources`` finds the text of an answer;
``extracting`` makes it whole, with the helpers, constants and imports it needs; ``layout`` is the
file, section by section; ``trying`` runs and checks it; ``what_ran`` compares what it makes with
what ran; ``keeper`` puts an answer in, and gives the module; ``answers`` holds all that was
accepted; ``progress`` tells what is solved; ``colab`` is for machines that forget their files.
"""

from .colab import colab, download
from .keeper import earlier, keep, my_vit, restore
from .pieces import PIECES, NotKept
from .progress import progress

__all__ = [
    "PIECES",
    "NotKept",
    "colab",
    "download",
    "earlier",
    "keep",
    "my_vit",
    "progress",
    "restore",
]
