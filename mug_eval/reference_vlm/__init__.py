"""The reference model: a small Qwen2.5-VL of our own, its world of drawn scenes, and its training.

Light to import: torch and transformers are loaded by ``model``, ``train`` and ``evaluate`` only.
"""
