"""llama.cpp's types of a model, for bench.quality: its own files, quantizer and engine, through
llama-cpp-python.

The GGUF file in F32 is written from a Hugging Face directory of Llama's or BERT's shape, with its
tokenizer, so that sizes are those of whole files. The importance matrix is llama.cpp's: the mean
square of each column of what its products read, over the calibration text, gathered by its own
callback. The output matrix has one here even where it is the embedding, which llama-imatrix leaves
out. Files are those of llama-quantize: its mixture of each type, not one type for all.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import numpy as np

from phasor.errors import PhasorError
from phasor.files import read_json, replacing

Reader = Callable[[Sequence[int]], np.ndarray]  # ids to logits (count, vocabulary), or a vector


class Form(NamedTuple):
    """A file of another engine; `read` opens it."""

    name: str
    path: Path
    read: Callable[[], Reader]


# Whether llama.cpp makes it without an importance matrix too.
TYPES = {
    "Q8_0": True,
    "Q6_K": True,
    "Q5_K_M": True,
    "Q5_K_S": True,
    "Q5_1": True,
    "Q5_0": True,
    "Q4_1": True,
    "Q4_K_M": True,
    "Q4_K_S": True,
    "Q4_0": True,
    "IQ4_NL": True,
    "IQ4_XS": True,
    "Q3_K_L": True,
    "Q3_K_M": True,
    "Q3_K_S": True,
    "IQ3_M": True,
    "IQ3_S": True,
    "IQ3_XS": False,
    "IQ3_XXS": False,
    "Q2_K": True,
    "IQ2_M": False,
    "IQ2_S": False,
}

# ---- A GGUF file

_LLAMA = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_BERT = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


def _pairs(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys, for rotary pairs that are neighbours."""
    halves = rows.reshape(heads, 2, len(rows) // heads // 2, -1)
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(rows.shape)


def write_gguf(directory: Path, to: Path) -> None:
    """A Hugging Face directory in F32."""
    import gguf
    from safetensors.numpy import load_file

    config = read_json(directory / "config.json")
    kind, heads = config["model_type"], config["num_attention_heads"]
    if kind not in ("llama", "bert"):
        raise PhasorError(f"{directory}: a model of the type {kind}, expected llama or bert")
    names = _LLAMA if kind == "llama" else _BERT
    tokenizer = read_json(directory / "tokenizer.json")["model"]
    pieces = sorted(tokenizer["vocab"], key=tokenizer["vocab"].__getitem__)
    with replacing(to) as file:
        writer = gguf.GGUFWriter(file.name, kind)
        writer.add_block_count(config["num_hidden_layers"])
        writer.add_context_length(config["max_position_embeddings"])
        writer.add_embedding_length(config["hidden_size"])
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count(heads)
        writer.add_vocab_size(config["vocab_size"])
        if kind == "llama":
            kv_heads = config["num_key_value_heads"]
            writer.add_head_count_kv(kv_heads)
            writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
            writer.add_rope_freq_base(config["rope_theta"])
            writer.add_rope_dimension_count(config["hidden_size"] // heads)
            writer.add_tokenizer_model("gpt2")
            writer.add_tokenizer_pre("gpt-2")
            writer.add_token_list(pieces)
            merges = [m if isinstance(m, str) else " ".join(m) for m in tokenizer["merges"]]
            writer.add_token_merges(merges)
        else:
            writer.add_layer_norm_eps(config["layer_norm_eps"])
            writer.add_causal_attention(False)
            writer.add_pooling_type(gguf.PoolingType.MEAN)
            writer.add_tokenizer_model("bert")
            writer.add_token_type_count(config["type_vocab_size"])
            starts = [p[2:] if p[:2] == "##" else "\u2581" + p for p in pieces]
            special = [p[0] + p[-1] == "[]" and len(p) > 2 for p in pieces]
            writer.add_token_list([p if own else s for p, s, own in zip(pieces, starts, special)])
        writer.add_token_types([gguf.TokenType.NORMAL] * len(pieces))
        for name, value in load_file(directory / "model.safetensors").items():
            part, _, what = name.rpartition(".")
            block = ""
            for start in ("model.layers.", "encoder.layer."):
                if part.startswith(start):
                    number, _, part = part.removeprefix(start).partition(".")
                    block = f"blk.{number}."
            if part not in names:
                continue  # a pooler's, or a table of positions 0, 1, 2, …
            value = np.ascontiguousarray(value, np.float32)
            if kind == "llama" and names[part] in ("attn_q", "attn_k"):
                value = _pairs(value, heads if names[part] == "attn_q" else kv_heads)
            writer.add_tensor(f"{block}{names[part]}.{what}", value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


# ---- The engine


class _Tensor(ctypes.Structure):
    """The tensor of ggml's public header, up to the name."""


_Tensor._fields_ = [
    ("type", ctypes.c_int),
    ("buffer", ctypes.c_void_p),
    ("ne", ctypes.c_int64 * 4),
    ("nb", ctypes.c_size_t * 4),
    ("op", ctypes.c_int),
    ("op_params", ctypes.c_int32 * 16),
    ("flags", ctypes.c_int32),
    ("src", ctypes.POINTER(_Tensor) * 10),
    ("view_src", ctypes.c_void_p),
    ("view_offs", ctypes.c_size_t),
    ("data", ctypes.c_void_p),
    ("name", ctypes.c_char * 64),
]


def _api() -> Any:
    from llama_cpp import llama_cpp

    llama_cpp.llama_log_set(_QUIET.setdefault("log", llama_cpp.llama_log_callback(_nothing)), None)
    llama_cpp.llama_backend_init()
    return llama_cpp


_QUIET: dict[str, Any] = {}


def _nothing(*_: Any) -> None:
    pass


class Llama:
    """llama.cpp on the processor, keys and values in f32. sums: gathers the squares of what each
    product reads, and the number of rows, by the name of its matrix."""

    def __init__(
        self,
        path: Path,
        threads: int,
        context: int,
        sums: dict[bytes, list[Any]] | None = None,
    ) -> None:
        self.api = api = _api()
        params = api.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = api.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            raise PhasorError(f"{path}: llama.cpp cannot read it")
        self.vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        self.width = api.llama_model_n_embd(self.model)
        options = api.llama_context_default_params()
        options.n_ctx = options.n_batch = options.n_ubatch = context
        options.n_threads = options.n_threads_batch = threads
        options.flash_attn_type, options.type_k, options.type_v = 0, 0, 0
        self.vectors = self._word("general.architecture") == "bert"
        options.embeddings = self.vectors
        if sums is not None:
            self._seen = api.ggml_backend_sched_eval_callback(
                lambda tensor, ask, _: _gather(tensor, ask, sums)
            )
            options.cb_eval = self._seen
        self.context = api.llama_init_from_model(self.model, options)
        if not self.context:
            raise PhasorError(f"{path}: llama.cpp gives no context of {context} tokens")
        self.batch = api.llama_batch_init(context, 0, 1)

    def _word(self, key: str) -> str:
        out = ctypes.create_string_buffer(128)
        self.api.llama_model_meta_val_str(self.model, key.encode(), out, len(out))
        return out.value.decode()

    def __call__(self, ids: Sequence[int]) -> np.ndarray:
        api, batch = self.api, self.batch
        memory = api.llama_get_memory(self.context)
        if memory:
            api.llama_memory_clear(memory, False)
        batch.n_tokens = len(ids)
        for i, id_ in enumerate(ids):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = id_, i, 1, True
            batch.seq_id[i][0] = 0
        if (api.llama_encode if self.vectors else api.llama_decode)(self.context, batch):
            raise PhasorError("llama.cpp cannot read the ids")
        api.llama_synchronize(self.context)
        if self.vectors:
            found = api.llama_get_embeddings_seq(self.context, 0)
            return np.ctypeslib.as_array(found, (self.width,)).copy()
        found = api.llama_get_logits(self.context)
        return np.ctypeslib.as_array(found, (len(ids), self.vocabulary)).copy()

    def close(self) -> None:
        self.api.llama_batch_free(self.batch)
        self.api.llama_free(self.context)
        self.api.llama_model_free(self.model)


_PRODUCT, _F32 = "MUL_MAT", 0


def _gather(address: int, ask: bool, sums: dict[bytes, list[Any]]) -> bool:
    """llama.cpp's callback, before (`ask`) and after each tensor is computed."""
    tensor = _Tensor.from_address(address)
    if tensor.op != _product_code() or not tensor.src[0]:
        return not ask
    weights, read = tensor.src[0].contents, tensor.src[1].contents
    if not weights.name.endswith(b".weight") or read.type != _F32:
        return not ask
    if not ask:
        columns, rows = read.ne[0], read.ne[1] * read.ne[2] * read.ne[3]
        if read.nb[1] != 4 * columns:
            raise PhasorError("llama.cpp: the rows of a product are apart")
        values = (ctypes.c_float * (columns * rows)).from_address(read.data)
        squares = np.square(np.frombuffer(values, np.float32).astype(np.float64))
        total = sums.setdefault(weights.name, [np.zeros(columns), 0])
        total[0] += squares.reshape(rows, columns).sum(axis=0)
        total[1] += rows
    return True


def _product_code() -> int:
    """The number of the operation, by its name in this build."""
    if "op" not in _QUIET:
        import llama_cpp

        (found,) = Path(llama_cpp.__file__).parent.glob("lib/libggml-base.so")
        library = ctypes.CDLL(str(found))
        library.ggml_op_name.restype = ctypes.c_char_p
        names = [library.ggml_op_name(i) for i in range(60)]
        _QUIET["op"] = names.index(_PRODUCT.encode())
    code: int = _QUIET["op"]
    return code


# ---- Its files


def importance(gguf: Path, texts: Iterable[Sequence[int]], threads: int) -> dict[bytes, np.ndarray]:
    """The importance matrix over the texts' ids: of each matrix, the mean square of each column of
    its inputs."""
    texts = list(texts)
    sums: dict[bytes, list[Any]] = {}
    model = Llama(gguf, threads, max(map(len, texts)) + 8, sums)
    for ids in texts:
        model(ids)
    model.close()
    if not sums:
        raise PhasorError(f"{gguf}: llama.cpp shows no product of a matrix")
    return {name: (total / count).astype(np.float32) for name, (total, count) in sums.items()}


def quantize(
    gguf: Path, to: Path, kind: str, matrix: dict[bytes, np.ndarray] | None, threads: int
) -> None:
    """As llama-quantize, with an importance matrix where there is one."""
    api = _api()
    params = api.llama_model_quantize_default_params()
    params.ftype, params.nthread = getattr(api, f"LLAMA_FTYPE_MOSTLY_{kind}"), threads
    if matrix:
        entries = (api.llama_model_imatrix_data * (len(matrix) + 1))()
        for entry, (name, values) in zip(entries, matrix.items()):
            entry.name, entry.size = name, len(values)
            entry.data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        params.imatrix = entries
    if api.llama_model_quantize(str(gguf).encode(), str(to).encode(), ctypes.byref(params)):
        raise PhasorError(f"{gguf}: llama.cpp makes no {kind} of it")


def forms(
    gguf: Path,
    texts: Iterable[Sequence[int]],
    context: int,
    threads: int,
    folder: Path,
    kinds: Sequence[str] = tuple(TYPES),
) -> Iterator[Form]:
    """F32, then each type without and with the importance matrix of these texts, if there are any;
    a file is there until the next is asked for."""
    given, path = list(texts), folder / "model.gguf"
    unknown = [kind for kind in kinds if kind not in TYPES]
    if unknown:
        raise PhasorError(f"llama.cpp's type {unknown[0]}: expected one of {', '.join(TYPES)}")

    def opened(file: Path) -> Callable[[], Reader]:
        return lambda: Llama(file, threads, context + 8)

    yield Form("llama.cpp F32", gguf, opened(gguf))
    matrix = importance(gguf, given, threads) if given else None
    for kind in kinds:
        for chosen in (None, matrix) if matrix else (None,):
            if chosen is None and not TYPES[kind]:
                continue
            quantize(gguf, path, kind, chosen, threads)
            name = f"llama.cpp {kind}" + (", importance matrix" if chosen else "")
            yield Form(name, path, opened(path))
