"""Exercises of notebook 01."""

from .core import Exercise

EXERCISES: tuple[Exercise, ...] = ()
