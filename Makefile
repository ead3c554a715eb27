.DEFAULT_GOAL := help
.PHONY: help setup check test lock docs

help:  ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup:  ## Make .venv hold what the lock says
	@bin/setup

check: setup  ## Form, types, import layers and the tidy tests, in less than a minute
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports --no-cache
	@.venv/bin/python -m pytest tests/tidy

test:  ## Everything: bin/test
	@bin/test

docs: setup  ## Write the generated pages of docs/ anew
	@.venv/bin/python -m holdfast.cli.docs docs

lock: setup  ## Write requirements.lock anew from pyproject.toml (needs uv)
	@uv pip compile pyproject.toml --universal --all-extras --group dev --generate-hashes --no-header --no-annotate --quiet --upgrade -o requirements.lock
