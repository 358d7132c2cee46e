# make demo   the lecture's experiment, from a fresh clone to a picture
# make test   everything CI runs
# make bench  the speed of the trainer beside the yardstick's
# make seeds  the lecture's configs over 32 seeds
# make findings  the lecture's claims over 128 seeds: docs/findings.md and its pictures
# make ground-truth  theory's statements, measured: docs/ground-truth.md and its pictures
# make algorithms  the whole family on one task, length bias, credit: docs/algorithms.md and its pictures
# make torture  runs that are killed at random instants, resumed, and compared byte by byte
# make bench-keeping  what files and checkpoints cost
# make bench-transformer  the transformer: sampling, stacks, and how an epoch grows
# make bench-trl  beside TRL's GRPOTrainer; installs it into .venv-trl
# make test-ray  the sweep on a Ray cluster that loses a node (make test runs it too)
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
WITH_TRL := .venv-trl/installed

.PHONY: demo test test-ray torture format bench bench-many bench-keeping bench-transformer bench-trl seeds findings ground-truth algorithms clean
.DEFAULT_GOAL := test

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(WITH_TRL): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-trl
	.venv-trl/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

demo: $(INSTALLED)
	$(BIN)/pgrl train --config configs/lecture/centered_clipped.yaml

test: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -n 2

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(INSTALLED)
	$(BIN)/python benchmarks/one_run.py

bench-many: $(INSTALLED)
	$(BIN)/python benchmarks/many_runs.py seeds
	$(BIN)/python benchmarks/many_runs.py grid
	$(BIN)/python benchmarks/many_runs.py table

bench-keeping: $(INSTALLED)
	$(BIN)/python benchmarks/keeping.py

bench-transformer: $(INSTALLED)
	$(BIN)/python benchmarks/transformer.py

bench-trl: $(WITH_TRL)
	.venv-trl/bin/python benchmarks/against_trl.py

torture: $(INSTALLED)
	$(BIN)/python tests/torture.py

test-ray: $(INSTALLED)
	$(BIN)/pytest tests/on_ray

findings: $(INSTALLED)
	$(BIN)/python docs/write_findings.py

ground-truth: $(INSTALLED)
	$(BIN)/python docs/write_ground_truth.py

algorithms: $(INSTALLED)
	$(BIN)/python docs/write_algorithms.py

seeds: $(INSTALLED)
	$(BIN)/python benchmarks/lecture_seeds.py

clean:
	rm -rf .venv .venv-trl .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
