"""Says when a client of librdkafka's has to be made anew.

It reads the files of TLS once. And a broker may lose its controller for a moment, as after it stood still. It then
may answer that there are no brokers at all. librdkafka believes it, and forgets the brokers it knew, also the
bootstrap servers. Then each request fails for good, whatever ``metadata.recovery.strategy`` says
(confluentinc/librdkafka, issue 5301; seen with 2.16.1). A client that is made anew begins with the bootstrap servers.

Asked by each client's owner, on its thread; failures are noted by any thread.
"""

from __future__ import annotations

from confluent_kafka import KafkaException

from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka.tls_renewal import TlsRenewal


class Renewal:
    """One client of librdkafka's, and its successors in turn."""

    def __init__(self, properties: ClientProperties) -> None:
        """Call before the client is made."""
        self._tls = TlsRenewal(properties)
        self._answered = self._cut_off = False
        #: Why the last one was due.
        self.reason = ""

    def answered(self) -> None:
        """A broker has answered the client."""
        self._answered = True

    def failed(self, error: KafkaException) -> None:
        """A request failed. A request that no broker has answered counts, if one answered this client before: otherwise
        another client would find none, either."""
        self._cut_off = self._cut_off or (self._answered and error.args[0].code() < 0)

    def due(self) -> bool:
        """True, once, when another client has to take this one's place."""
        if self._tls.due():
            self.reason = "the files of TLS were renewed"
        elif self._cut_off:
            self.reason = "no broker answers, and librdkafka may have forgotten the brokers that it knew"
        else:
            return False
        self._answered = self._cut_off = False
        return True
