"""The instance's HTTP port."""

from streamsapp.http.instance_routes import instance_routes
from streamsapp.http.instance_view import InstanceView
from streamsapp.http.server import HttpServer

__all__ = ["HttpServer", "InstanceView", "instance_routes"]
