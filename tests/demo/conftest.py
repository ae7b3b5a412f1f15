from pathlib import Path

import pytest

from api.demo.samples import make_samples


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_samples(tmp_path_factory.mktemp("samples") / "logs")
