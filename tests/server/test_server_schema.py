"""All that the OpenAPI description allows, and much that it does not: no answer is a bug, none breaks its word."""

from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from argosy.server.api.routes import make_api
from support.serving_thread import Serving

CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)
EXAMPLES = 15
ENDLESS = "/v1/events"
"""A stream that never ends; it has tests of its own."""

pytestmark = pytest.mark.slow
SCHEMA = schemathesis.openapi.from_dict(make_api(None).openapi())


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Give a service; it ends with the module."""
    thread = Serving(tmp_path_factory.mktemp("service"))
    yield thread.begin()
    thread.end()


class TestSchema:
    @SCHEMA.exclude(path=ENDLESS).parametrize()
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None, derandomize=True)
    def test_every_answer_keeps_its_word(self, case: schemathesis.Case, serving: Serving) -> None:
        """Whatever is asked, the answer is one that the description names, of the shape it names."""
        response = case.call(base_url=serving.url, headers={"Authorization": f"Bearer {serving.token}"}, timeout=60)
        case.validate_response(response, checks=CHECKS)

    def test_the_description_is_served(self, serving: Serving) -> None:
        """Anybody may read it: it holds no secret."""
        answer = httpx.get(f"{serving.url}/v1/openapi.json")
        assert answer.json()["openapi"].startswith("3.1")
        assert len(answer.json()["paths"]) >= 15
