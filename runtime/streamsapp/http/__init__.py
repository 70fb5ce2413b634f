"""The instance's HTTP port."""

from streamsapp.http.instance import instance_routes
from streamsapp.http.server import HttpServer
from streamsapp.http.view import InstanceView

__all__ = ["HttpServer", "InstanceView", "instance_routes"]
