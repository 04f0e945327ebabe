"""Saves models with the newer transformers, which is first on the path.

    save_newer.py CASES.json

A list of {"model", "config", "weights", "folder", "ids"}: the class and its configuration (null:
the one beside the weights), a directory to take the weights from (null: they are drawn), where to
save, and ids that it is run on (and "target", of an encoder-decoder, those that its decoder is run
on). What the model gives for them goes to FOLDER.npy; with "sources", what it generates for each,
greedy and with "beams", at most "new" tokens, to FOLDER.json; of each of "rules", options of
generation, the same to FOLDER/NUMBER.json, and the model to FOLDER/NUMBER; with "greedy", so many
tokens of a decoder behind the ids, past every end; with "double", all that is computed is double.
The version is printed.
test_families_versions.py, test_families_translators.py and test_translator_rules.py run this file.
"""

from __future__ import annotations

import contextlib
import copy
import json
import sys
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import torch
import transformers
from generated import generated, recommended

from places import run_newer

# Weights that the older version does not save, and those that they are there. The bias is drawn, as
# that of a model that is trained on, where nothing is generated.
NOT_IN_THE_OLDER = {
    ".decoder.bias": ".bias",
    ".decoder.embed_tokens.weight": ".decoder.output_projection.weight",
}


def save_newer(out: Path, jobs: list[dict]) -> None:
    """Runs the jobs in the newer version's process."""
    (out / "jobs.json").write_text(json.dumps(jobs))
    said = run_newer(__file__, out / "jobs.json")
    assert said.strip().startswith("5."), said


@contextlib.contextmanager
def float32_is_double() -> Iterator[None]:
    """For the code that says torch.float32 or .float() in a double model."""
    saved = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = lambda self, *_, **__: self.double()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved
        torch.set_default_dtype(saved[0])


def draw(model: torch.nn.Module) -> None:
    torch.manual_seed(11)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(
                torch.randn_like(p) * 0.3
                + (
                    1.0
                    if p.dim() == 1 and "norm" in name.lower() and name.endswith("weight")
                    else 0.0
                )
            )
        for name, scale in model.named_buffers():  # Gemma 4's
            if name.endswith("layer_scalar"):
                scale.copy_(1 + torch.randn_like(scale) * 0.3)


def output_of(given: Any, model: str) -> torch.Tensor:
    """What a class is for: the first that it gives, of SigLIP's text encoder the vector."""
    return given.pooler_output if model == "SiglipTextModel" else next(iter(given.values()))


def run_text(model: torch.nn.Module, ids: torch.Tensor, **more: Any) -> torch.Tensor:
    """What a model gives for ids; of a pair of encoders, the vector of a text."""
    if hasattr(model, "get_text_features"):
        features = model.get_text_features(ids, **more)
        return getattr(features, "pooler_output", features)  # a table in transformers 5
    return output_of(model(ids, **more, return_dict=True), type(model).__name__)


def restore(folder: Path, config: dict[str, Any]) -> None:
    """Adds the field of ModernBERT's decoder that transformers 4.57 reads and does not save."""
    path, name = folder / "config.json", "local_attention"
    values = json.loads(path.read_text())
    if name in config and values.setdefault(name, config[name]) == config[name]:
        path.write_text(json.dumps(values))


def make(case: dict[str, Any]) -> torch.nn.Module:
    kind = getattr(transformers, case["model"])
    how: dict[str, Any] = {
        "attn_implementation": "sdpa" if "Falcon" in case["model"] else "eager"
    }  # as test_families_decoders.py has it
    if case["config"] is not None:
        how["config"] = kind.config_class(**copy.deepcopy(case["config"]), **how)
    if case["weights"] is None:
        model = kind(how["config"])
        draw(model)
        return model
    model, told = kind.from_pretrained(
        case["weights"], dtype=torch.float32, output_loading_info=True, **how
    )
    for name in told["missing_keys"]:
        end = next((end for end in NOT_IN_THE_OLDER if name.endswith(end)), None)
        assert end, f"{case['model']}: no weights for {name}"
        if "sources" in case or not end.endswith("bias"):  # what is generated is the older one's
            older = model.get_parameter(name.replace(end, NOT_IN_THE_OLDER[end]))
            model.get_parameter(name).data.copy_(older)
        else:
            torch.nn.init.normal_(model.get_parameter(name))
    if case["model"].startswith("FSMT"):  # without a cache it sees later tokens
        model.generation_config.use_cache = True
    return model


def greedy(model: torch.nn.Module, case: dict[str, Any]) -> list[int]:
    """The tokens of the library's generate behind the ids."""
    model.generation_config.eos_token_id = None
    settings = transformers.GenerationConfig(
        do_sample=False, max_new_tokens=case["greedy"], eos_token_id=None, pad_token_id=0
    )
    batch = torch.tensor([case["ids"]])
    made = model.generate(batch, attention_mask=torch.ones_like(batch), generation_config=settings)
    return made[0, len(case["ids"]) :].tolist()


def main(path: Path) -> None:
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for case in json.loads(path.read_text()):
        model = make(case).eval()
        model.save_pretrained(case["folder"])
        with torch.no_grad():
            target = case.get("target")  # of an encoder-decoder
            more = {"decoder_input_ids": torch.tensor([target])} if target else {}
            ids = torch.tensor([case["ids"]])
            if "double" in case:  # in which float32 rounds nothing
                with float32_is_double():
                    given = run_text(copy.deepcopy(model).double(), ids, **more)
            else:
                given = run_text(model, ids, **more)
        np.save(case["folder"] + ".npy", given[0].double().numpy())
        if "greedy" in case:
            Path(case["folder"] + ".json").write_text(json.dumps(greedy(model, case)))
        asked = {name: case[name] for name in ("sources", "new", "beams") if name in case}
        for number, rule in enumerate(case.get("rules", [])):
            folder = Path(case["folder"]) / str(number)
            folder.with_suffix(".json").write_text(
                json.dumps(recommended(model, rule, folder, **asked))
            )
        if "sources" in case and "rules" not in case:
            ways = [generated(model, case["sources"], case["new"], n) for n in (1, case["beams"])]
            Path(case["folder"] + ".json").write_text(json.dumps(ways))
    print(transformers.__version__)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
