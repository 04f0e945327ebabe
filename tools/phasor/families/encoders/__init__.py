"""The families of encoders, one lineage a module, found by being there. A module imports no
other lineage: what several have alike is in modules of phasor.families."""

from phasor.families.lineages import found

FAMILIES = found(__name__, __path__)
