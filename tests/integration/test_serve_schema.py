"""The OpenAPI document is true: whatever is sent, the answer is one that it tells, and never a fault of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serve_process import served

if TYPE_CHECKING:
    from tests.conftest import Program

EXAMPLES = 15
"""For each operation: enough for each parameter to be wrong once; a few minutes for all on a loaded machine."""

CHECKS = (
    not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_answer_is_one_that_the_document_tells(program: Program) -> None:
    faults: list[str] = []
    seen: set[int] = set()
    with served(program, "--engine", "fake") as server:
        schema = schemathesis.openapi.from_url(f"{server.url}/v1/openapi.json")
        headers = {"Authorization": f"Bearer {server.key}"}
        results: list[Any] = list(schema.get_all_operations())
        for result in results:
            operation = result.ok()
            try:
                _try(operation, headers, seen)
            except (Failure, FailureGroup) as failure:
                faults.append(f"{operation.label}: {failure!r:.2000}")
        assert server.process.poll() is None
    assert not faults, "\n\n".join(faults)
    # What was sent got in, was refused at the door, and was not found: all of it was tried.
    assert seen >= {200, 201, 202, 404, 422}


def _try(operation: Any, headers: dict[str, str], seen: set[int]) -> None:  # noqa: ANN401  # untyped there
    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answered(case: Any) -> None:  # noqa: ANN401  # likewise
        # Of a skill that is there, half of the runs: nothing but that gets beyond the door.
        if isinstance(case.body, dict) and "skill" in case.body and len(str(case.body)) % 2:
            case.body["skill"] = "python-math"
        if case.query and "wait" in case.query:
            case.query["wait"] = 1
        response = case.call(headers=headers, timeout=30)
        seen.add(response.status_code)
        case.validate_response(response, checks=list(CHECKS))

    answered()
