"""llama.cpp, as the cyllama package has it built, as something to compare with: ids and logits of a
GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

import numpy as np
from cyllama.llama import llama_cpp

llama_cpp.disable_logging()
_F32 = 0  # ggml's number


class LlamaCpp(llama_cpp.LlamaModel):
    """A model on the processor alone; its keys and values are kept in f32."""

    def __new__(cls, path: Path) -> "LlamaCpp":
        return super().__new__(cls, str(path), cls._params(), False)

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), self._params(), False)
        self.vocabulary = self.get_vocab()

    @staticmethod
    def _params() -> llama_cpp.LlamaModelParams:
        params = llama_cpp.LlamaModelParams()
        params.n_gpu_layers = 0
        return params

    @property
    def n_vocab(self) -> int:
        """The context asks the model for it."""
        return self.vocabulary.n_vocab

    def ids(self, text: str, special: bool = False) -> list[int]:
        """Without the ids that go around a text. special: control pieces in the text are found."""
        return list(self.vocabulary.tokenize(text, False, special))

    def logits(self, ids: Sequence[int], threads: int = 2) -> np.ndarray:
        """(T, V) f32."""
        params = llama_cpp.LlamaContextParams()
        params.n_ctx = params.n_batch = params.n_ubatch = len(ids) + 8
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type, params.type_k, params.type_v = 0, _F32, _F32
        context = llama_cpp.LlamaContext(self, params, False)
        batch = llama_cpp.LlamaBatch(n_tokens=len(ids), embd=0, n_seq_max=1)
        for position, id_ in enumerate(ids):
            batch.add(int(id_), position, [0], True)
        assert context.decode(batch) == 0
        out = np.array([context.get_logits_ith(i) for i in range(len(ids))], dtype=np.float32)
        context.close()
        return out
