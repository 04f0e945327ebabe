"""The tokenizers' models, one module each: what it knows of the files that a model comes in and of
its section. MODELS has them in the order of their numbers."""

import importlib
import pkgutil

MODELS = sorted(
    (
        importlib.import_module(f"{__name__}.{module.name}").MODEL
        for module in pkgutil.iter_modules(__path__)
    ),
    key=lambda model: model.number,
)
