"""An HTTP port with its guard, and what all pages have: the ports of instances and of the operator are made of it."""

from streamsapp.web.server import HttpServer

__all__ = ["HttpServer"]
