"""What trainers put around a state_dict: the entry of a file that holds it (Lightning, DeepSpeed,
one's own torch.save), optimizers and moving averages beside it, and the prefixes of modules that
hold the model (DistributedDataParallel, torch.compile, Lightning). All of it by known names;
tensors under another name are an error and not left out in silence."""

from __future__ import annotations

from typing import Any, Iterable

from phasor.checkpoints.tensors import Checkpoint, Stored
from phasor.errors import PhasorError, printable
from phasor.values import words

# Entries that hold the weights.
_WEIGHTS = words("state_dict model_state_dict model module")
# Entries of a training's state.
_TRAINING = frozenset(
    words("""
    optimizer optimizers optim optimizer_state optimizer_states optimizer_state_dict optim_state
    optim_state_dict opt opt_state scheduler schedulers scheduler_state scheduler_state_dict
    lr_scheduler lr_schedulers lr_scheduler_state_dict scaler scaler_state scaler_state_dict
    grad_scaler amp amp_scaling_state native_amp_scaling_state rng_state rng_states torch_rng_state
    cuda_rng_state cuda_rng_states numpy_rng_state np_rng_state python_rng_state random_rng_state
    callbacks loops fit_loop hyper_parameters hparams_name datamodule_hyper_parameters epoch step
    global_step iteration iter_num steps best_val_loss best_loss best_metric loss losses config
    args model_args arch pytorch-lightning_version lr metrics history
""")
)
# Entries, and starts of names within a state_dict, of a moving average of the weights.
_AVERAGES = frozenset(
    words("""
    ema ema_state ema_state_dict ema_model model_ema state_dict_ema model_ema_state_dict ema_weights
    averaged_model swa_model swa_state_dict
""")
)
AVERAGED = words("model_ema. ema_model. ema.")
AVERAGE = "a moving average of the weights (EMA), or what counts its steps"
# Starts of names that say who held the model, and names that stand beside them.
DATA_PARALLEL = words("module. _orig_mod.")
MODEL = "model."
LIGHTNING = (*DATA_PARALLEL, MODEL)
COUNTERS = words("n_averaged num_updates")
_MOST_PREFIXES = 4  # of one name: module._orig_mod.model.


def _holds(value: Any) -> bool:
    return isinstance(value, dict) and any(isinstance(v, Stored) for v in value.values())


def weights_of(content: dict[Any, Any]) -> tuple[Any, list[str]]:
    """(the state_dict of a file's content: the entry that has it, or the content itself; notes).
    PhasorError where two entries could be it, or where an unknown one has tensors too."""
    found = [name for name in _WEIGHTS if _holds(content.get(name))]
    if not found:
        return content, []
    beside = [
        name
        for name, value in content.items()
        if name not in found[:1] and (_holds(value) or isinstance(value, Stored))
    ]
    for name in beside:
        if name not in _TRAINING and name not in _AVERAGES:
            shown = printable(str(name) if type(name) is str else repr(name))
            raise PhasorError(
                f"has tensors in {found[0]!r} and in {shown!r}: say which are the model's,"
                f' [checkpoint] key = "{found[0]}" in the description'
            )
    averages = [name for name in beside if name in _AVERAGES]
    return content[found[0]], [
        f'passed over: {name!r}, {AVERAGE}; [checkpoint] key = "{name}" takes it'
        for name in averages
    ]


def unwrapped(
    checkpoint: Checkpoint, starts: Iterable[str] = DATA_PARALLEL, asked: Iterable[str] = ()
) -> Checkpoint:
    """The tensors without what holds the model in front of their names, where all of them have it
    and no name that is `asked` for begins so."""
    asked = tuple(asked)
    for _ in range(_MOST_PREFIXES):
        names = [n for n in checkpoint if n not in COUNTERS and not n.startswith(tuple(AVERAGED))]
        start = next((s for s in starts if names and all(n.startswith(s) for n in names)), None)
        if start is None or any(name.startswith(start) for name in asked):
            break
        checkpoint = _without(checkpoint, start)
    return checkpoint


def within_model(checkpoint: Checkpoint, trunk: str) -> Checkpoint:
    """The same without a `model.` that a trainer put before all names. trunk: how the names of the
    family's own class begin; where that is `model.` too, it is there twice."""
    if not checkpoint.tensors or not all(name.startswith(MODEL) for name in checkpoint):
        return checkpoint
    if trunk.startswith(MODEL) and not any(name.startswith(MODEL * 2) for name in checkpoint):
        return checkpoint
    return _without(checkpoint, MODEL)


def _without(checkpoint: Checkpoint, start: str) -> Checkpoint:
    checkpoint.notes.append(f"names begin with {start} in the file, which says who held them")
    return checkpoint.renamed({start: ""})
