"""What every test runs under."""

from hypothesis import settings

# How long an example takes says nothing on a machine that runs brokers beside it; a hang meets the timeout.
settings.register_profile("house", deadline=None)
settings.load_profile("house")
