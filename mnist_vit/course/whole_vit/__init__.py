"""``check.vit``: any Vision Transformer compared with ours, part by part."""

from .judging import judge_vit, vit

__all__ = ["judge_vit", "vit"]
