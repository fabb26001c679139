# make build    every module that its spec, a template or tsgen itself has outdated
# make gemm     one spec's modules; likewise for every other file in specs/
# make test     the tests; make lint: ruff and mypy; make docs: what is printed by the code and kept in files
# make check    proofs of all specs, and whether generated/ agrees with them

VENV   ?= .venv
PYTHON ?= python3
TSGEN   = $(VENV)/bin/tsgen
SPECS  := $(wildcard specs/*.yaml)
NAMES  := $(basename $(notdir $(SPECS)))

# generated/gemm_sm90a.py for specs/gemm.yaml: the first target of the spec, without the underscore
sm      = $(shell sed -n 's/^target: *\[* *sm_\([0-9a-z]*\).*/sm\1/p' $(1) | head -1)
module  = generated/$(basename $(notdir $(1)))_$(call sm,$(1)).py
MODULES := $(foreach s,$(SPECS),$(call module,$(s)))
SMS     := $(sort $(foreach s,$(SPECS),$(call sm,$(s))))

.PHONY: setup build check test lint docs clean $(NAMES)
build: $(MODULES)

# One rule for each target. tsgen leaves a module alone whose text stays the same; make wants to see it newer.
define rule
generated/%_$(1).py: specs/%.yaml | $(TSGEN)
	$$(TSGEN) build $$< -o generated --depfile
	@touch $$@
endef
$(foreach sm,$(SMS),$(eval $(call rule,$(sm))))
$(foreach s,$(SPECS),$(eval $(basename $(notdir $(s))): $(call module,$(s))))
-include $(wildcard generated/*.d)

setup: $(TSGEN)
$(TSGEN): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install -q -e '.[cu13,dev]'
	@touch $@

check: $(TSGEN)
	$(TSGEN) check $(SPECS)
	$(TSGEN) build --check $(SPECS)

test: $(TSGEN)
	$(VENV)/bin/python -m pytest -q -n auto --dist loadfile

lint: $(TSGEN)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check tsgen tests
	$(VENV)/bin/mypy

docs: $(TSGEN)
	$(VENV)/bin/python -m tests.support.regenerate

clean:
	rm -rf generated/*.d generated/*.ptx generated/*.cubin generated/*.o generated/*.so
