# Sourced by bin/up and bin/test, which stand in the root of the clone: sets `python` to a fit one.
# CHRONO_PYTHON names another than the first that is found.

is_fit() {
    "$1" -I -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
        >/dev/null 2>&1 </dev/null
}

if [ -n "${CHRONO_PYTHON:-}" ]; then
    candidates=$CHRONO_PYTHON
else
    candidates='.venv/bin/python python3 python3.13 python3.12 python3.11'
fi

python=
found=
for candidate in $candidates; do
    if is_fit "$candidate"; then
        python=$candidate
        break
    fi
    version=$("$candidate" --version 2>/dev/null </dev/null) && found="${found:+$found, }$version ($candidate)"
done

if [ -z "$python" ]; then
    echo "$0: Python 3.11, 3.12 or 3.13 is needed; found: ${found:-none}" >&2
    exit 1
fi
# What .venv was made from: an environment cannot be made anew by its own interpreter.
if [ "$python" = .venv/bin/python ]; then
    python=$("$python" -I -c 'import os, sys; print(os.path.realpath(sys.executable))')
fi
