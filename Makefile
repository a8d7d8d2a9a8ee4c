# `make test` on a fresh machine does everything: an environment of its own, the installation, the tests.
# With MUG_EVAL_PYTHON=/path/to/python that interpreter is used as it is and nothing is installed.

PYTHON ?= python3
VENV := .venv

ifdef MUG_EVAL_PYTHON
RUN := $(MUG_EVAL_PYTHON)
READY :=
PLAYS :=
else
RUN := $(VENV)/bin/python
READY := $(VENV)/.installed
# What it takes to play is less than what it takes to test; who has the second has the first.
PLAYS := $(if $(wildcard $(READY)),$(READY),$(VENV)/.plays)
endif

export PYTHONPATH := $(CURDIR)

.PHONY: help test lint bench demo clean

help:
	@echo "make test   install what is missing into $(VENV), run the tests"
	@echo "make lint   ruff and mypy"
	@echo "make bench  measure the engine against a server with a fixed delay"
	@echo "make demo   every protocol on drawn scenes with the model that comes with mug_eval, in a minute or two"
	@echo "make clean  remove $(VENV) and caches"

# The stamp is written last, so that an installation that was interrupted is done again.
$(VENV)/.installed: EXTRAS := dev,local,diffusion,report
$(VENV)/.plays: EXTRAS := local
$(VENV)/.installed $(VENV)/.plays: setup.cfg pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "mug_eval needs Python 3.11 or newer: make test PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@

test: $(READY)
	$(RUN) -m pytest

lint: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy --strict mug_eval

bench: $(READY)
	$(RUN) bench/harness.py

demo: $(PLAYS)
	$(RUN) -m mug_eval demo

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
