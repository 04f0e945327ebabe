"""A weight file in Python: the C interface by ctypes, without a copy of weights or logits.

with phasor.load("zh-en.phasor") as model:
    print(model.translate("我有一只猫。"))
"""

from phasor.runtime._interface import Status
from phasor.runtime.library import Error
from phasor.runtime.model import Model, load
from phasor.runtime.results import (
    Aligned,
    Answer,
    Entity,
    Filled,
    Label,
    Ranked,
    Score,
    TokenLabels,
    TokenScore,
)
from phasor.runtime.session import Session, Step
from phasor.runtime.weights import Info

__all__ = [
    "Aligned",
    "Answer",
    "Entity",
    "Error",
    "Filled",
    "Info",
    "Label",
    "Model",
    "Ranked",
    "Score",
    "Session",
    "Status",
    "Step",
    "TokenLabels",
    "TokenScore",
    "load",
]
