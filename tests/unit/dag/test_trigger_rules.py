"""Every rule against what upstreams can come to."""

import itertools

import pytest

from dag.trigger_rules import RULE_NOT_MET, Action, Outcome, RuleDecision, Tally, decide
from jobs.choices import TriggerRule

RELEASE, WAIT = RuleDecision(Action.RELEASE), RuleDecision(Action.WAIT)
FAILED = RuleDecision(Action.SKIP, "upstream_failed")
NO_TICK = RuleDecision(Action.SKIP, "no_upstream_tick")
NOT_MET = RuleDecision(Action.SKIP, RULE_NOT_MET)
LETTERS = {
    "s": Outcome.SUCCEEDED,
    "f": Outcome.FAILED,
    "k": Outcome.SKIPPED,
    "p": Outcome.PENDING,
    "a": Outcome.ABSENT,
}

# upstream outcomes → what all_success, all_done, one_success, one_failed, none_failed make of them
TABLE: dict[str, tuple[RuleDecision, ...]] = {
    "": (RELEASE, RELEASE, RELEASE, RELEASE, RELEASE),
    "s": (RELEASE, RELEASE, RELEASE, NOT_MET, RELEASE),
    "f": (FAILED, RELEASE, FAILED, RELEASE, FAILED),
    "k": (FAILED, RELEASE, FAILED, NOT_MET, RELEASE),
    "p": (WAIT, WAIT, WAIT, WAIT, WAIT),
    "a": (NO_TICK, NO_TICK, NO_TICK, NO_TICK, NO_TICK),
    "ss": (RELEASE, RELEASE, RELEASE, NOT_MET, RELEASE),
    "sf": (FAILED, RELEASE, RELEASE, RELEASE, FAILED),
    "sk": (FAILED, RELEASE, RELEASE, NOT_MET, RELEASE),
    "sp": (WAIT, WAIT, RELEASE, WAIT, WAIT),
    "sa": (NO_TICK, RELEASE, RELEASE, NOT_MET, RELEASE),
    "ff": (FAILED, RELEASE, FAILED, RELEASE, FAILED),
    "fk": (FAILED, RELEASE, FAILED, RELEASE, FAILED),
    "fp": (FAILED, WAIT, WAIT, RELEASE, FAILED),
    "fa": (FAILED, RELEASE, FAILED, RELEASE, FAILED),
    "kk": (FAILED, RELEASE, FAILED, NOT_MET, RELEASE),
    "kp": (FAILED, WAIT, WAIT, WAIT, WAIT),
    "ka": (FAILED, RELEASE, FAILED, NOT_MET, RELEASE),
    "pp": (WAIT, WAIT, WAIT, WAIT, WAIT),
    "pa": (NO_TICK, WAIT, WAIT, WAIT, WAIT),
    "aa": (NO_TICK, NO_TICK, NO_TICK, NO_TICK, NO_TICK),
    "spf": (FAILED, WAIT, RELEASE, RELEASE, FAILED),
    "skf": (FAILED, RELEASE, RELEASE, RELEASE, FAILED),
}
CASES = [
    (rule, letters, decision)
    for letters, decisions in TABLE.items()
    for rule, decision in zip(TriggerRule, decisions, strict=True)
]


def tally(letters: str) -> Tally:
    return Tally.of(LETTERS[letter] for letter in letters)


@pytest.mark.parametrize(("rule", "letters", "decision"), CASES)
def test_the_table(rule: TriggerRule, letters: str, decision: RuleDecision) -> None:
    assert decide(rule, tally(letters)) == decision


def test_the_table_names_every_outcome_and_every_pair() -> None:
    pairs = {"".join(sorted(pair)) for pair in itertools.combinations_with_replacement("sfkpa", 2)}
    assert pairs <= {"".join(sorted(letters)) for letters in TABLE}
    assert set(LETTERS) <= set(TABLE)


@pytest.mark.parametrize("rule", TriggerRule)
@pytest.mark.parametrize(
    "letters", ["".join(some) for some in itertools.combinations_with_replacement("sfkpa", 4)]
)
def test_a_decision_that_fell_early_stands(rule: TriggerRule, letters: str) -> None:
    """Whatever the pending ones come to, an early decision would have been the same at the end."""
    early = decide(rule, tally(letters))
    if "p" not in letters or early == WAIT:
        return
    for ends in itertools.product("sfk", repeat=letters.count("p")):
        late = decide(rule, tally(letters.replace("p", "") + "".join(ends)))
        assert late.action == early.action


@pytest.mark.parametrize("rule", TriggerRule)
@pytest.mark.parametrize("letters", ["s", "f", "k", "a", "sf", "sk", "fk", "sfk", "sa", "fa"])
def test_nothing_waits_once_everything_is_done(rule: TriggerRule, letters: str) -> None:
    assert decide(rule, tally(letters)) != WAIT
