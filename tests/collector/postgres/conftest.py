import pytest

from tests.collector.postgres.kit import Shop


@pytest.fixture
def shop(postgres, tmp_path):
    """A new store in a database of its own."""
    address, _ = postgres.new_store()
    return Shop(address, tmp_path)
