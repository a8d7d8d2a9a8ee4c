"""mug_eval: does a multi-agent protocol make a vision-language model hallucinate less, and at what price?"""

__version__ = "0.1.0"
