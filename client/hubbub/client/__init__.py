"""The thing apps embed: noise made once, kept for life, under a budget. Most apps need `Client` alone."""

from hubbub.client.client import Client
from hubbub.client.control import Pending, Status
from hubbub.protocol.invalid import Invalid
from hubbub.protocol.registry import Registry

__all__ = ["Client", "Invalid", "Pending", "Registry", "Status"]
