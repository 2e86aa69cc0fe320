"""What an agent tells of its host by itself."""

import socket

import pytest

from argosy.agent.host import (
    boot_id,
    ephemeral_range,
    free_port,
    gloo_environment,
    host_facts,
    interface_of,
    own_address,
)
from argosy.contracts.errors import InfrastructureError
from argosy.contracts.talk import ChipsFound, HostFacts


class TestHostFacts:
    def test_what_is_known_stays(self):
        """The host fills in only what nobody said."""
        said = HostFacts(hostname="h", boot_id="", chips=(ChipsFound(chip="cpu", count=2),), memory_gb=3.0)
        facts = host_facts(said, server="http://127.0.0.1:1", address="10.0.0.9")
        assert (facts.hostname, facts.address, facts.memory_gb, facts.chips) == ("h", "10.0.0.9", 3.0, said.chips)
        assert facts.boot_id == boot_id()
        assert facts.cores > 0

    def test_a_boot_has_one_name(self):
        """The boot's name is the same all the time it lasts."""
        assert boot_id() == boot_id() != ""


class TestAddresses:
    def test_the_address_towards_a_server(self):
        """A server on this host is reached over loopback, without anything being sent."""
        assert own_address("http://127.0.0.1:7070") == "127.0.0.1"

    def test_an_unknown_server_is_told(self):
        """A name that nobody knows is an error that names it."""
        with pytest.raises(InfrastructureError, match=r"no way to http://no\.such\.host\.invalid:1"):
            own_address("http://no.such.host.invalid:1")

    def test_gloo_is_given_the_interface(self):
        """Gloo is told which interface to use; where none has the address it is left to itself."""
        assert gloo_environment("127.0.0.1") == {"GLOO_SOCKET_IFNAME": interface_of("127.0.0.1")}
        assert gloo_environment("192.0.2.1") == {}


class TestFreePort:
    def test_it_can_be_had(self):
        """The port is free, and the kernel gives it to no outgoing connection."""
        port = free_port("127.0.0.1")
        low, high = ephemeral_range()
        assert not low <= port <= high
        socket.create_server(("127.0.0.1", port)).close()

    def test_a_foreign_address_is_refused(self):
        """An address of another host has no port for us."""
        with pytest.raises(InfrastructureError, match=r"no port of 192\.0\.2\.1 can be had"):
            free_port("192.0.2.1")
