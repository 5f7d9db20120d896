"""Every knob of Chrono in one place. Names say their unit; the reference is
docs/reference/settings.md."""

from pathlib import Path
from typing import Any

import django_stubs_ext

from chronoproject import env

django_stubs_ext.monkeypatch()

BASE_DIR = Path(__file__).resolve().parent.parent

# --- where things are -----------------------------------------------------------------------
CHRONO_HOME = Path(env.text("CHRONO_HOME", str(BASE_DIR / "var"))).absolute()
CHRONO_PORT = env.integer("CHRONO_PORT", 8000)
CHRONO_FLOWER_PORT = env.integer("CHRONO_FLOWER_PORT", 5555)
CHRONO_FLOWER_URL = env.text("CHRONO_FLOWER_URL", f"http://127.0.0.1:{CHRONO_FLOWER_PORT}/")
CHRONO_STORAGE_URL = env.text("CHRONO_STORAGE_URL", f"file://{CHRONO_HOME / 'storage'}")
CHRONO_SPOOL_DIR = Path(env.text("CHRONO_SPOOL_DIR", str(CHRONO_HOME / "spool")))
REDIS_URL = env.text("REDIS_URL", "redis://127.0.0.1:6379/0")
CHRONO_DATABASE_DIRECT_URL = env.text("CHRONO_DATABASE_DIRECT_URL")

# --- leases, beats and sweeps ---------------------------------------------------------------
CHRONO_LEASE_SEC = env.seconds("CHRONO_LEASE_SEC", 30, minimum=1)
# Five seconds, or as much oftener as a shorter lease needs.
CHRONO_HEARTBEAT_SEC = env.seconds(
    "CHRONO_HEARTBEAT_SEC", min(5.0, CHRONO_LEASE_SEC / 6), minimum=0.1
)
CHRONO_DISPATCHER_LEASE_SEC = env.seconds("CHRONO_DISPATCHER_LEASE_SEC", 5, minimum=1)
CHRONO_POLL_SEC = env.seconds("CHRONO_POLL_SEC", 1, minimum=0.01)
CHRONO_REPLAY_LAG_SEC = env.seconds("CHRONO_REPLAY_LAG_SEC", 30)
CHRONO_REPLAY_EMPTY_SEC = env.seconds("CHRONO_REPLAY_EMPTY_SEC", 5)
CHRONO_MAX_LOST = env.integer("CHRONO_MAX_LOST", 3)
CHRONO_MAX_CLOCK_STEP_SEC = env.seconds("CHRONO_MAX_CLOCK_STEP_SEC", 60, minimum=1)

# --- dispatch -------------------------------------------------------------------------------
CHRONO_SHARDS = env.integer("CHRONO_SHARDS", 1, minimum=1)
# A low run that has been queued for so long is let into the normal queue, a few at a time.
CHRONO_PRIORITY_AGE_SEC = env.seconds("CHRONO_PRIORITY_AGE_SEC", 600, minimum=1)
CHRONO_BATCH_JOBS = env.integer("CHRONO_BATCH_JOBS", 1000, minimum=1)
CHRONO_BATCH_TICKS = env.integer("CHRONO_BATCH_TICKS", 5000, minimum=1)

# --- history --------------------------------------------------------------------------------
CHRONO_RETENTION_DAYS = env.integer("CHRONO_RETENTION_DAYS", 30, minimum=1)
CHRONO_PARTITION_DAYS_AHEAD = env.integer("CHRONO_PARTITION_DAYS_AHEAD", 14, minimum=1)
CHRONO_LOG_MAX_BYTES = env.integer("CHRONO_LOG_MAX_BYTES", 64 * 1024 * 1024, minimum=1024)

# --- workers --------------------------------------------------------------------------------
CHRONO_POOLS = env.words(
    "CHRONO_POOLS",
    "default",
    pattern=r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}",
    rule="is not the name of a pool: letters, digits, _ and -, 63 at most",
)
CHRONO_WORKER_CONCURRENCY = env.integer("CHRONO_WORKER_CONCURRENCY", 4, minimum=1)
CHRONO_DRAIN_SEC = env.seconds("CHRONO_DRAIN_SEC", 60)
CHRONO_RUN_AS = env.text("CHRONO_RUN_AS", "nobody")
CHRONO_PID_NAMESPACE = env.boolean("CHRONO_PID_NAMESPACE", default=False)
CHRONO_HTTP_ALLOW = env.words("CHRONO_HTTP_ALLOW")
CHRONO_TASK_MODULES = env.words("CHRONO_TASK_MODULES", "runs.builtin_tasks")
# Celery's main process is known to grow; above so much it drains and restarts. 0: no bound.
CHRONO_WORKER_MAX_MB = env.integer("CHRONO_WORKER_MAX_MB", 1024, minimum=0)
CHRONO_WORKER_EVENTS = env.boolean("CHRONO_WORKER_EVENTS", default=True)

# --- web ------------------------------------------------------------------------------------
CHRONO_MAX_BODY_BYTES = env.integer("CHRONO_MAX_BODY_BYTES", 256 * 1024, minimum=1024)
CHRONO_IDEMPOTENCY_HOURS = env.integer("CHRONO_IDEMPOTENCY_HOURS", 24, minimum=1)
SECRET_KEY = env.text("CHRONO_SECRET_KEY", "insecure-only-for-development-and-tests")
DEBUG = env.boolean("CHRONO_DEBUG", default=False)
ALLOWED_HOSTS = env.words("CHRONO_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1],testserver")
CSRF_TRUSTED_ORIGINS = env.words("CHRONO_CSRF_TRUSTED_ORIGINS")
CHRONO_HTTPS = env.boolean("CHRONO_HTTPS", default=False)
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if CHRONO_HTTPS else None
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = CHRONO_HTTPS
X_FRAME_OPTIONS = "DENY"

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "django_celery_results",
    "jobs",
    "runs",
    "dag",
    "chronoproject",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "chronoproject.body_limit.BodyLimitMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "chronoproject.urls"
WSGI_APPLICATION = "chronoproject.wsgi.application"
APPEND_SLASH = True
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True  # a bare clone serves its admin without a collectstatic step
DATA_UPLOAD_MAX_MEMORY_SIZE = CHRONO_MAX_BODY_BYTES
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000  # an admin action may carry ten thousand ticked rows

# --- PostgreSQL -----------------------------------------------------------------------------
CHRONO_STATEMENT_TIMEOUT_SEC = env.seconds("CHRONO_STATEMENT_TIMEOUT_SEC", 15)
_SESSION = (
    f"-c statement_timeout={int(CHRONO_STATEMENT_TIMEOUT_SEC * 1000)}"
    " -c lock_timeout=2000 -c idle_in_transaction_session_timeout=5000"
    " -c timezone=UTC"
)
_DATABASE = env.database(
    env.text("DATABASE_URL", "postgresql://chrono:chrono@127.0.0.1:5432/chrono")
)
_DATABASE["OPTIONS"] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "options": _SESSION,
    **_DATABASE["OPTIONS"],
}
_DATABASE |= {
    "CONN_MAX_AGE": env.integer("CHRONO_CONN_MAX_AGE_SEC", 60),
    "CONN_HEALTH_CHECKS": True,
    "DISABLE_SERVER_SIDE_CURSORS": True,  # holds behind a transaction pooler too
}
DATABASES = {"default": _DATABASE}

# --- REST -----------------------------------------------------------------------------------
REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["jobs.auth.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["jobs.auth.TeamPermission"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "chronoproject.errors.exception_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "Chrono",
    "DESCRIPTION": "Register jobs; Chrono runs every tick of them exactly once.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": r"/v1",
    "POSTPROCESSING_HOOKS": ["chronoproject.openapi.add_components"],
    "COMPONENT_SPLIT_REQUEST": True,
}

# --- Celery (docs/adr/0002-celery-settings.md) ----------------------------------------------
CELERY_BROKER_URL = REDIS_URL
CELERY_RESULT_BACKEND = "django-db"
CELERY_RESULT_EXTENDED = True
CELERY_TASK_IGNORE_RESULT = True  # a run's outcome is its row; only large operations keep theirs
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {
    "socket_timeout": 5,
    "socket_connect_timeout": 5,
    "health_check_interval": 10,
    "ack_emulation": False,  # replay brings lost messages back, and nothing is delivered twice
    "priority_steps": [0],
    "queue_order_strategy": "priority",
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
CELERY_TASK_PUBLISH_RETRY = False
CELERY_TASK_ACKS_LATE = False
CELERY_TASK_REJECT_ON_WORKER_LOST = False
CELERY_TASK_RETRY_ON_WORKER_LOST = False
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ETA_TASK_LIMIT = 100
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 0
CELERY_WORKER_PROC_ALIVE_TIMEOUT = 60
CELERY_WORKER_MAX_TASKS_PER_CHILD = env.integer("CHRONO_TASKS_PER_CHILD", 5000, minimum=1)
CELERY_WORKER_ENABLE_REMOTE_CONTROL = CHRONO_WORKER_EVENTS  # Flower asks through it
CELERY_WORKER_SEND_TASK_EVENTS = CHRONO_WORKER_EVENTS
CELERY_TASK_SEND_SENT_EVENT = False
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_DEFAULT_QUEUE = "chrono.operations"
# Celery's Django fixup closes the connection around every task unless it may reuse it this often.
CELERY_DB_REUSE_MAX = 1_000_000_000
CELERY_TIMEZONE = "UTC"

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "()": "chronoproject.logs.PlainFormatter",
            "fmt": "%(levelname)s %(name)s: %(message)s",
        }
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["stderr"], "level": env.text("CHRONO_LOG_LEVEL", "INFO")},
}

LOGIN_REDIRECT_URL = "/admin/"  # for who opens the login page itself

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Chrono",
    "SITE_HEADER": "Chrono",
    "SITE_SYMBOL": "schedule",
    "SITE_URL": None,
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": f"{STATIC_URL}chrono/icon.svg"}
    ],
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": [f"{STATIC_URL}chrono/admin.css"],
    "DASHBOARD_CALLBACK": "chronoproject.pages.dashboard",
    "SIDEBAR": {"show_search": False, "navigation": "chronoproject.navigation.sidebar"},
    "TABS": "chronoproject.navigation.tabs",
}
