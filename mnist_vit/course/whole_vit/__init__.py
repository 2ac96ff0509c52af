"""``check.vit``: any Vision Transformer compared with ours, part by part."""

from .in_files import vit_file
from .judging import judge_vit, vit

__all__ = ["judge_vit", "vit", "vit_file"]
