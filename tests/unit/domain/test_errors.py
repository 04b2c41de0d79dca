"""One hierarchy of errors, each kind with a code of its own."""

from engine import errors as session_errors
from engine.domain.errors import EngineError
from engine.log import errors as log_errors


def kinds() -> list[type[EngineError]]:
    """Every error class of the engine."""
    found = [
        kind
        for module in (session_errors, log_errors)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, EngineError) and kind is not EngineError
    ]
    return list(dict.fromkeys(found))


def test_every_error_is_an_engine_error_with_a_code_of_its_own() -> None:
    codes = [kind.code for kind in kinds()]
    assert len(codes) == len(set(codes)) > 10
    assert EngineError.code == "engine"
    assert "engine" not in codes


def test_a_code_is_a_short_lower_case_word() -> None:
    for kind in kinds():
        assert kind.code.replace("_", "").isalpha()
        assert kind.code == kind.code.lower()
