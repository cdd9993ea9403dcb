"""A registry in a temporary file."""

import pytest

from spade_registry import Registry


@pytest.fixture
def path(tmp_path):
    return tmp_path / "registry.db"


@pytest.fixture
def registry(path):
    with Registry.open(path) as registry:
        yield registry
