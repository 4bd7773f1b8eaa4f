"""`python -m apod` is the `apod` command."""

from apod.cli import main

main()
