"""Play protocols on benchmarks: the same as ``mug-eval run``."""

import sys

from mug_eval.cli import program

if __name__ == "__main__":
    sys.exit(program("run"))
