"""Merges the user's ``spec.podTemplate`` over the template that the operator builds. Pure; shapes were checked before.

As Kubernetes' strategic merge does: mappings are merged field by field, ``null`` removes a field, lists whose items
have a name are merged item by item, every other list is replaced.
"""

from __future__ import annotations

from typing import Any, TypeGuard

#: Lists by the name of their field → the field that distinguishes items.
_ITEM_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
}

#: Fields that every pod of ours has: ``null`` is what YAML makes of a key without a value, and takes none of them away.
_NEEDED = frozenset(
    {
        "metadata",
        "labels",
        "annotations",
        "spec",
        "containers",
        "env",
        "ports",
        "serviceAccountName",
        "terminationGracePeriodSeconds",
        "volumeMounts",
        "volumes",
    }
)


def merged(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Merges ``override`` over ``base``; neither is changed."""
    result = dict(base)
    for name, value in override.items():
        if value is None:
            if name not in _NEEDED:
                result.pop(name, None)
        elif isinstance(value, dict):
            under = result.get(name)
            result[name] = merged(under if isinstance(under, dict) else {}, value)
        elif name in _ITEM_KEYS and _are_items(value, _ITEM_KEYS[name]):
            under = result.get(name)
            mine = under if _are_items(under, _ITEM_KEYS[name]) else []
            result[name] = _merged_items(mine, value, _ITEM_KEYS[name])
        else:
            result[name] = value
    return result


def _are_items(value: object, key: str) -> TypeGuard[list[dict[str, Any]]]:
    """Says whether a list has items with names. Other parts of a pod have lists of these names, too, of any kind."""
    return isinstance(value, list) and all(
        isinstance(item, dict) and isinstance(item.get(key), str | int) for item in value
    )


def _merged_items(base: list[dict[str, Any]], override: list[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Returns the items of the base in their order, then the new ones."""
    items = {item[key]: item for item in base}
    for item in override:
        items[item[key]] = merged(items.get(item[key], {}), item)
    return list(items.values())
