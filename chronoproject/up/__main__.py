"""`python -m chronoproject.up`, which bin/up calls once the virtual environment is there."""

import sys

from chronoproject.up.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
