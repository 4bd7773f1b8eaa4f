"""`python -m apod` is the `apod` command."""

import os
import sys

if sys.path[0] == os.getcwd():  # put there by -m: what lies in the current folder must not be imported
    del sys.path[0]

from apod.cli import main

main()
