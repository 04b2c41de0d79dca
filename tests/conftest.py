"""Settings of the whole suite: a slow machine fails no test of a property."""

from hypothesis import settings

settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")
