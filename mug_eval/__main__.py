"""``python -m mug_eval`` is ``mug-eval``."""

import sys

from mug_eval.cli import program

if __name__ == "__main__":
    sys.exit(program())
