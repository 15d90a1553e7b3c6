# Two commands: `make demo` shows what the library does, `make test` checks all of it.
VENV ?= .venv
PY := $(VENV)/bin/python
.PHONY: setup demo docs test lint types unit torture audit clean
setup: $(VENV)/.done
$(VENV)/.done: pyproject.toml scripts/setup.sh
	VENV=$(VENV) ./scripts/setup.sh
	@touch $@

demo: setup  ## train three small models, compare them with textbook methods, write demo/report.html with the explorer
	$(PY) -m algoformer demo

docs: setup  ## build the documentation site in site/; open site/index.html, no server needed
	OMP_NUM_THREADS=1 $(PY) -m scripts.site

test: setup  ## everything that CI runs; types are checked beside the tests
	@$(MAKE) -j3 lint types unit

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: setup
	$(VENV)/bin/mypy

# One thread a process: two processes with two threads each are five times slower on two cores.
# A worker takes tests in order and steals the last ones of the other: fixtures of a file are made once.
# Bytecode is kept even where the environment forbids it: the processes that tests start would each compile the library.
unit: setup
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(PY) -m pytest -q -n 2 --dist worksteal

# 500 kills, 1,000 races and 30,000 changed inputs; `ARGS='--kills 1000 --mutants 50000'` asks for more.
torture: setup
	OMP_NUM_THREADS=1 $(PY) -m torture $(ARGS)

audit:  ## compare the newest versions of all dependencies with the advisories of PyPI; needs a network
	scripts/audit.sh

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
