"""How long a failed attempt waits for the next one."""


def delay_sec(
    attempt: int, *, base_sec: float, factor: float, max_sec: float, jitter: float, rand: float
) -> float:
    """Seconds to wait after the failed attempt number `attempt` (1, 2, …).

    base · factor^(attempt - 1), lengthened by up to `jitter` of itself as `rand` (0 up to 1) says,
    and never more than max_sec. Where the cap would take the spread away, it is kept below the cap,
    so that a thousand jobs that failed together do not come back together.
    """
    if attempt < 1:
        raise ValueError(f"attempt is {attempt}; the first one is 1")
    try:
        delay = float(base_sec) * float(factor) ** (attempt - 1)
    except OverflowError:
        delay = float(max_sec)
    longest = min(delay * (1 + jitter), max_sec)
    shortest = min(delay, longest / (1 + jitter))
    return shortest + (longest - shortest) * rand
