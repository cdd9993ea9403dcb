# Everything a newcomer needs: `make demo` and `make test`. Both set up a virtual environment first.
# PYTHON chooses the interpreter, VENV the environment's folder, TORCH the build of torch to install first.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-slow lint nano docs clean install

install: $(STAMP)

# torch comes first and pinned: an unpinned torch brings gigabytes of CUDA to a machine without a GPU.
$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet -e '.[train,multi-agent,dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/spade-envs selfplay --preset nano

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" $(ARGS)

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m slow $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

nano: $(STAMP)
	$(BIN)/python -m spade_trainer.nano.make

docs: $(STAMP)
	$(BIN)/python docs/generate.py

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
