"""The HTTP routes of an instance."""

from streamsapp.http.instance_routes import instance_routes
from streamsapp.http.instance_view import InstanceView

__all__ = ["InstanceView", "instance_routes"]
