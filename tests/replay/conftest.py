from tests.gateway.conftest import clock as clock, open_store as open_store
