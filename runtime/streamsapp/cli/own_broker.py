"""The manifest for the broker that ``streamsapp local`` starts, which speaks plain text and knows no users. Pure.

Called by ``local`` and its replicas, and by the commands that look at that broker, on the main thread.
"""

from __future__ import annotations

import msgspec

from streamsapp.config.client_keys import split_prefix
from streamsapp.manifest import StreamsApp

#: The beginnings of the client properties that say how a connection is secured.
_OF_SECURITY = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.", "https.")


def starts_broker(app: StreamsApp, embedded: bool) -> bool:
    """Says whether ``local`` starts a broker: the manifest names none, or ``--embedded`` is given."""
    return embedded or app.spec.kafka.bootstrap_servers is None


def on_own_broker(app: StreamsApp) -> StreamsApp:
    """The manifest without what secures connections to the broker that it names: a client that speaks TLS would never
    reach the one of this machine, and the secret is mounted in pods only."""
    kafka = app.spec.kafka
    properties = {
        key: value for key, value in kafka.properties.items() if not split_prefix(key)[1].startswith(_OF_SECURITY)
    }
    plain = msgspec.structs.replace(kafka, properties=properties, secret_ref=None)
    return msgspec.structs.replace(app, spec=msgspec.structs.replace(app.spec, kafka=plain))
