"""nanochat (Karpathy 2025): norms without weights, one of them of the embedding; pairs turn the
other way."""

from __future__ import annotations

from phasor.families.decoder import Decoder
from phasor.families.llama_like import llama_like, llama_names
from phasor.families.model import single
from phasor.families.stack import NORMS
from phasor.format import descriptor as D
from phasor.format import tensors as R
from phasor.values import settings


def _nanochat(d: Decoder) -> None:
    d.kind["attention_biases"] = D.ATTENTION_BIASES * d.flag("attention_bias")
    d.bare_norms = NORMS | {"embedding_norm"}
    d.stack.update(embedding_norm=D.RMS_NORM, embedding_norm_eps=d.kind["norm_eps"])
    # behind the rotation: what a scaled one multiplies by, the norm takes away
    d.kind.update(qk_norm=D.RMS_NORM, qk_norm_place=D.NORM_LAST)
    if d.config.get("final_logit_softcapping") is not None:
        d.output["cap"] = single(d.config.positive("final_logit_softcapping"))
    turn = d.rotation()
    turn["tables"] = {R.ROTARY: -turn["tables"][R.ROTARY]}
    d.kind.update(turn)


NANOCHAT = llama_like(
    "nanochat",
    "NanoChatForCausalLM",
    _nanochat,
    llama_names(ffn_gate=None, ffn_in="mlp.fc1", ffn_out="mlp.fc2"),
    settings("""
        vocab_size               50304
        hidden_size              768
        intermediate_size        8192
        num_hidden_layers        12
        num_attention_heads      6
        hidden_act               "relu2"
        final_logit_softcapping  15.0
    """),
    gated=False,
)
