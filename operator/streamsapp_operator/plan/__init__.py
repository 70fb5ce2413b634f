"""Decides what to do for one application: pure, ``plan(app, observed, status, now) -> Plan``."""

from streamsapp_operator.plan.compose import Plan, plan

__all__ = ["Plan", "plan"]
