"""Pure: cycles and orders of directed graphs, given as node → the nodes it comes after."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from graphlib import TopologicalSorter
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
    """Return the keys, each after those of its upstreams that are keys too."""
    sorter = TopologicalSorter(
        {node: [up for up in before if up in upstreams] for node, before in upstreams.items()}
    )
    return list(sorter.static_order())


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
