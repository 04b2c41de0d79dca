"""Any application of the library on a log, by configuration alone."""

import pytest
from eventsourcing.persistence import InfrastructureFactory

from engine.log.library import Factory


def variables(path, **others):
    return {"PERSISTENCE_MODULE": "engine.log.library", "SQLITE_DBNAME": str(path), **others}


def test_the_module_is_found_by_its_name(path):
    factory = InfrastructureFactory.construct(variables(path, LOG_SYNCHRONOUS="OFF"))
    assert isinstance(factory, Factory)
    assert factory.application_recorder().max_notification_id() is None
    factory.close()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"SQLITE_DBNAME": ""}, "SQLITE_DBNAME"),
        ({"SQLITE_LOCK_TIMEOUT": "soon"}, "SQLITE_LOCK_TIMEOUT"),
        ({"ORIGINATOR_ID_TYPE": "int"}, "ORIGINATOR_ID_TYPE"),
    ],
)
def test_a_bad_variable_is_named(path, change, named):
    with pytest.raises(OSError, match=named):
        Factory(variables(path, **change))
    assert not path.exists()
