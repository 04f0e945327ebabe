"""Llama (Touvron et al. 2023), also 2 and 3; SmolLM."""

from __future__ import annotations

from phasor.families.llama_like import llama, llama_like

LLAMA = llama_like("llama", "LlamaForCausalLM", llama)
