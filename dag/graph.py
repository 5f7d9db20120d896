"""Pure: cycles and orders of directed graphs, given as node → the nodes it comes after."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

Node = TypeVar("Node")


def find_cycle(upstreams: Mapping[Node, Collection[Node]], start: Node) -> tuple[Node, ...] | None:
    """Return a cycle through `start`, from start back to start; None when there is none."""
    came_from: dict[Node, Node] = {}
    pending = [start]
    while pending:
        node = pending.pop()
        for upstream in upstreams.get(node, ()):
            if upstream == start:
                return (start, *_path_back(came_from, node, start), start)
            if upstream not in came_from:
                came_from[upstream] = node
                pending.append(upstream)
    return None


def _path_back(came_from: Mapping[Node, Node], node: Node, start: Node) -> Iterable[Node]:
    path = []
    while node != start:
        path.append(node)
        node = came_from[node]
    return reversed(path)


def topological_order(upstreams: Mapping[Node, Collection[Node]]) -> list[Node]:
    """Return the keys, each after those of its upstreams that are keys too.

    Those on a cycle, or behind one, come last in any order.
    """
    followers: dict[Node, list[Node]] = defaultdict(list)
    open_upstreams: dict[Node, int] = {}
    for node, before in upstreams.items():
        known = [upstream for upstream in before if upstream in upstreams]
        open_upstreams[node] = len(known)
        for upstream in known:
            followers[upstream].append(node)
    order = [node for node, count in open_upstreams.items() if count == 0]
    for node in order:  # it grows while it is walked
        for follower in followers[node]:
            open_upstreams[follower] -= 1
            if open_upstreams[follower] == 0:
                order.append(follower)
    return [*order, *(node for node, count in open_upstreams.items() if count > 0)]


def reachable(
    starts: Iterable[Node], neighbours: Callable[[Node], Iterable[Node]]
) -> Iterator[Node]:
    """Yield each node that can be reached from `starts`, these included, once."""
    seen: set[Node] = set()
    pending = list(starts)
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            yield node
            pending.extend(neighbours(node))
