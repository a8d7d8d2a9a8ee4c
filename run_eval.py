"""Play protocols on benchmarks: the same as ``mug-eval run``."""

import sys

from mug_eval.cli import main

if __name__ == "__main__":
    sys.exit(main(["run", *sys.argv[1:]]))
