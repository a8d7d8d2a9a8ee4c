"""``python -m mug_eval`` is ``mug-eval``."""

import sys

from mug_eval.cli import main

if __name__ == "__main__":
    sys.exit(main())
