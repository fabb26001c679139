# make build    the modules of all specs; make gemm: those of one; likewise for every other file in specs/
# make check    proofs of all specs, and whether generated/ agrees with them
# make test     the tests; make lint: ruff and mypy; make docs: what is printed by the code and kept in files
#
# What outdates a module is left to tsgen, which knows it (any part of tsgen, a template, a variant, an edit by hand) and
# leaves a module alone whose text stays the same. Building all specs takes some seconds, so make keeps no account of it.

VENV   ?= .venv
PYTHON ?= python3
TSGEN   = $(VENV)/bin/tsgen
DEV     = $(VENV)/bin/ruff
OWN     = setup build check test lint docs clean
NAMES  := $(filter-out $(OWN),$(sort $(basename $(notdir $(wildcard specs/*.yaml specs/*.yml specs/*.toml)))))

.PHONY: $(OWN) $(NAMES)
build: $(TSGEN)
	$(TSGEN) build specs -o generated

$(NAMES): $(TSGEN)
	$(TSGEN) build $(wildcard specs/$@.yaml specs/$@.yml specs/$@.toml) -o generated

# The extra dev comes when it is needed first: a venv of README's first command has none.
setup: $(DEV)
$(TSGEN): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install -q -e '.[cu13]'
	@touch $@
$(DEV): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install -q -e '.[cu13,dev]'
	@touch $@ $(TSGEN)

check: $(TSGEN)
	$(TSGEN) check specs
	$(TSGEN) build --check specs

test: $(DEV)
	$(VENV)/bin/python -m pytest -q -n auto --dist loadfile

lint: $(DEV)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check tsgen tests
	$(VENV)/bin/mypy

docs: $(DEV)
	$(VENV)/bin/python -m tests.support.regenerate

clean:
	rm -rf generated/*.d generated/*.ptx generated/*.cubin generated/*.o generated/*.so
