"""The log's errors."""

import pickle

from eventsourcing.persistence import IntegrityError, PersistenceError

import engine.log
from engine.log import errors
from engine.log.errors import (
    ConflictError,
)


def test_a_conflict_can_be_sent_to_another_process():
    error = pickle.loads(pickle.dumps(ConflictError("s", 1, 2)))
    assert (error.stream, error.expected, error.actual) == ("s", 1, 2)


def test_every_error_has_a_code_of_its_own_and_is_exported():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LogError)]
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert {kind.__name__ for kind in kinds} <= set(engine.log.__all__)


def test_code_written_for_the_library_catches_what_it_expects():
    assert issubclass(errors.ConflictError, IntegrityError)
    assert issubclass(errors.LogError, PersistenceError)
