"""Topologies declared as data: ``spec.topology.steps`` (the DSL) and ``spec.topology.graph`` (KIP-28's builder).

Their faults are found without any of the user's code (``faults``, ``steps``, ``graph``), so that the operator can tell
them at once; then the code they name is looked up (``resolve``) and the topology is built (``build``).
"""
