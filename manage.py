#!/usr/bin/env python
"""Django's command line for Chrono."""

import os
import sys

from chronoproject.commandline import main

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronoproject.settings")
    main(sys.argv)
