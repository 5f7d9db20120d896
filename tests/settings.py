"""Chrono's settings, pointed at the private servers of a test run."""

from tests import servers  # first: it sets the environment that the settings read

# isort: split
from chronoproject.settings import *  # noqa: F403 - the very settings, but for what follows
from chronoproject.settings import DATABASES

# The database's own name, so that processes which a test starts find it by DATABASE_URL.
DATABASES["default"]["TEST"] = {"NAME": servers.DATABASE}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # fast; nothing to protect
# A test is a transaction, and on a busy machine it may think longer between two statements.
DATABASES["default"]["OPTIONS"]["options"] += " -c idle_in_transaction_session_timeout=60000"
