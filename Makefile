# Two commands: `make demo` shows what the library does, `make test` checks all of it.
VENV ?= .venv
PY := $(VENV)/bin/python
.PHONY: setup demo test lint types unit clean
setup: $(VENV)/.done
$(VENV)/.done: pyproject.toml scripts/setup.sh
	VENV=$(VENV) ./scripts/setup.sh
	@touch $@

demo: setup  ## train three small models, compare them with textbook algorithms, write demo/report.html
	$(PY) -m algoformer demo

test: setup lint types unit  ## everything that CI runs

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: setup
	$(VENV)/bin/mypy

# One thread a process: two processes with two threads each are five times slower on two cores.
unit: setup
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n 2

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
