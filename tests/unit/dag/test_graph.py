"""Cycles and orders."""

import random

from dag.graph import find_cycle, reachable, topological_order


def test_a_cycle_is_named_from_its_start_back_to_it() -> None:
    upstreams = {"a": ["b"], "b": ["c", "x"], "c": ["a"]}
    assert find_cycle(upstreams, "a") == ("a", "b", "c", "a")


def test_a_node_after_itself_is_a_cycle() -> None:
    assert find_cycle({"a": ["a"]}, "a") == ("a", "a")


def test_a_diamond_is_no_cycle() -> None:
    assert find_cycle({"a": ["b", "c"], "b": ["d"], "c": ["d"]}, "a") is None


def test_a_cycle_elsewhere_is_not_this_nodes() -> None:
    assert find_cycle({"a": ["b"], "b": ["c"], "c": ["b"]}, "a") is None


def test_a_long_chain_needs_no_deep_stack() -> None:
    chain = {node: [node + 1] for node in range(50_000)}
    assert find_cycle(chain, 0) is None
    assert topological_order(chain)[0] == 49_999


def test_every_node_comes_after_its_upstreams() -> None:
    rng = random.Random(1)
    nodes = list(range(200))
    rng.shuffle(nodes)
    upstreams = {
        node: rng.sample(nodes[:place], min(place, rng.randint(0, 4)))
        for place, node in enumerate(nodes)
    }
    places = {node: place for place, node in enumerate(topological_order(upstreams))}
    assert all(places[up] < places[node] for node, before in upstreams.items() for up in before)


def test_upstreams_that_are_no_keys_are_left_out() -> None:
    assert topological_order({"b": ["a", "elsewhere"], "a": []}) == ["a", "b"]


def test_what_can_be_reached_is_reached_once() -> None:
    below = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "x": ["a"]}
    found = list(reachable(["a"], lambda node: below.get(node, ())))
    assert sorted(found) == ["a", "b", "c", "d"]


def test_what_is_on_a_cycle_or_behind_it_comes_last() -> None:
    upstreams = {"d": ["c"], "b": ["c", "a"], "c": ["b"], "a": [], "e": ["a"]}
    order = topological_order(upstreams)
    assert order[:2] == ["a", "e"]
    assert sorted(order[2:]) == ["b", "c", "d"]
