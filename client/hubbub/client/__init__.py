"""The thing apps embed: noise made once, kept for life, under a budget. Most apps need `Client` alone."""

from hubbub.client.account import Pending, Status
from hubbub.client.client import Client
from hubbub.protocol.registry import Registry
from hubbub.protocol.rules import Invalid

__all__ = ["Client", "Invalid", "Pending", "Registry", "Status"]
