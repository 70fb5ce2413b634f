"""The driver's port, to which workers connect by IPv4 or IPv6. Called by the modules that listen: ``streaming.channel``
and ``replay.worker_reports``, on the driver's main thread."""

from __future__ import annotations

import socket

from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_BACKLOG = 64


def driver_host(spark: SparkSession) -> str:
    """Returns the driver's name or address among its workers; Spark has brackets around an IPv6 address."""
    return (spark.sparkContext.getConf().get("spark.driver.host") or _LOOPBACK).strip("[]")


def listen(host: str) -> socket.socket:
    """Returns a socket that listens at a free port: on loopback if that is the driver's ``host``, else on all
    interfaces, by both families where this machine has both."""
    if host == _LOOPBACK:
        return socket.create_server((host, 0), backlog=_BACKLOG)
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    return socket.create_server(("", 0), backlog=_BACKLOG)
