# Aliases only: everything works without make.
.PHONY: up stop status test fast format

up:
	bin/up

stop:
	bin/up --stop

status:
	bin/up --status

test:
	bin/test

fast:
	bin/test --fast

format:
	.venv/bin/python -m ruff check --fix .
	.venv/bin/python -m ruff format .
