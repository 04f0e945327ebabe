"""Finds the families of a package by their modules being there: one lineage a module."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Iterable

from phasor.families.family import Family


def found(package: str, path: Iterable[str]) -> tuple[Family, ...]:
    """Every family that a module of the package defines: modules by name, the families of one in
    its order."""
    modules = [importlib.import_module(f"{package}.{m.name}") for m in pkgutil.iter_modules(path)]
    return tuple(value for m in modules for value in vars(m).values() if isinstance(value, Family))
