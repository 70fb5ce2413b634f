"""The cluster does not start where something else has its addresses or ports, and says who has them."""

from __future__ import annotations

import socket

import pytest

from cluster import network


@pytest.mark.parametrize(
    ("route", "found"),
    [
        ({"dst": "10.244.0.0/16", "dev": "flannel.1"}, ["10.244.0.0/24: a route to 10.244.0.0/16 by flannel.1"]),
        ({"dst": "10.250.0.1", "dev": "eth1"}, ["10.250.0.1/32: a route to 10.250.0.1/32 by eth1"]),
        ({"dst": "10.96.7.0/24", "dev": "tun0"}, ["10.96.0.0/16: a route to 10.96.7.0/24 by tun0"]),
    ],
)
def test_a_route_into_the_clusters_ranges_is_named_with_its_device(route: dict[str, str], found: list[str]) -> None:
    assert network.overlaps([route]) == found


def test_routes_that_give_way_to_the_clusters_are_no_obstacle() -> None:
    everywhere = {"dst": "default", "dev": "eth0"}
    private_network = {"dst": "10.0.0.0/8", "dev": "eth0"}
    elsewhere = {"dst": "192.168.0.0/16", "dev": "eth0"}
    its_own = {"dst": "10.244.0.0/24", "dev": "streamsapp-pods"}

    assert network.overlaps([everywhere, private_network, elsewhere, its_own]) == []


def test_a_port_is_taken_while_somebody_listens_there() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        assert network.is_taken("127.0.0.1", port)
    assert not network.is_taken("127.0.0.1", port)


def test_nobody_listens_at_an_address_that_this_machine_does_not_have() -> None:
    assert not network.is_taken("192.0.2.255", 6443)
