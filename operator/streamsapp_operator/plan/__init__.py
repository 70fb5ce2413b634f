"""Decides what to do for one application: pure, ``plan(app, observed, status, now) -> Plan``."""

from streamsapp_operator.plan.reconcile_plan import ReconcilePlan, plan

__all__ = ["ReconcilePlan", "plan"]
