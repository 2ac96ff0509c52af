"""Runs an answer undisturbed, records its calls, and says what can be observed of a wrong value.

It knows nothing of exercises: ``checking`` and ``whole_vit`` build on it.
"""
