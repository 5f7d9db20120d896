"""A DAG of runs as one would draw it on paper: what the real one is held against."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

WAITING, QUEUED, RUNNING, RETRYING = "waiting", "queued", "running", "retrying"
ENDED = ("succeeded", "dead", "skipped", "cancelled")


@dataclass(slots=True)
class Node:
    """A job's one run."""

    rule: str
    upstreams: Sequence[int]
    status: str = WAITING
    reason: str = "dependency"
    executions: int = 0
    lost: int = 0

    def becomes(self, status: str, reason: str = "") -> None:
        self.status, self.reason = status, reason

    @property
    def was_skipped_by_upstreams(self) -> bool:
        return (self.status, self.reason) == ("skipped", "upstream_failed")


@dataclass(slots=True)
class Model:
    """Runs of one logical date; a node's upstreams have smaller numbers."""

    nodes: Sequence[Node]
    followers: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def verdict(self, node: Node) -> str:
        """Say what the rule makes of the upstreams: go, stop, stop for good, or wait."""
        states = [self.nodes[up].status for up in node.upstreams]
        good, skipped = states.count("succeeded"), states.count("skipped")
        bad = states.count("dead") + states.count("cancelled")
        is_over = good + bad + skipped == len(states)
        go_now = {"one_success": good > 0, "one_failed": bad > 0}.get(node.rule, False)
        stop_now = {"all_success": bad + skipped > 0, "none_failed": bad > 0}.get(node.rule, False)
        if go_now:
            return "go"
        if stop_now:
            return "stop"
        if not is_over:
            return "wait"
        return {"one_success": "stop", "one_failed": "not needed"}.get(node.rule, "go")

    def look_at(self, number: int) -> None:
        """Let a waiting or skipped run follow its upstreams, and those below it if it turned."""
        node = self.nodes[number]
        before = node.status
        if node.status != WAITING and not node.was_skipped_by_upstreams:
            return
        verdict = self.verdict(node)
        if verdict == "go":
            node.becomes(QUEUED)
        elif verdict == "stop":
            node.becomes("skipped", "upstream_failed")
        elif verdict == "not needed":
            if before == WAITING:
                node.becomes("skipped", "rule_not_met")
        else:
            node.becomes(WAITING, "dependency")
        if node.status != before and (before == "skipped" or node.status == "skipped"):
            self.ring(number)

    def ring(self, number: int) -> None:
        """Look at those directly below, in order."""
        for follower in self.followers.get(number, ()):
            self.look_at(follower)

    def end(self, number: int, status: str, reason: str = "") -> None:
        """End a run, and let those below follow."""
        self.nodes[number].becomes(status, reason)
        self.ring(number)
