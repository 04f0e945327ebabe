"""The engines beside which Phasor is measured, each behind the requests that Phasor's own programs
(tests/cpp/bench_*.cpp) answer: a line a request, a JSON object an answer.

    PYTHONPATH=tools python3 -m bench.peers ENGINE [MODEL] [--threads N] [--context N]
        [--sequences N] [--compute float32|int8] [--ids FILE]

ENGINE is a name of PEERS. A request is the name of a method and its numbers: `decode 16 48`. A
process holds one model: two of them in one process are two teams of threads, of which each waits
for the other. llama.cpp has keys and values in f16, flash attention where it wants it, and weights
that are repacked when they are loaded; CTranslate2's prefill is the time of one new token after the
prompt. Settings: bench.common.SETTINGS.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterable

from bench.common import Answer, memory
from phasor.entry import front_door

Args = argparse.Namespace
Run = Callable[[], Any]


def prompt_ids(count: int, vocabulary: int, sequence: int = 0) -> list[int]:
    """Those that tests/cpp/bench_decoder.cpp makes."""
    return [(i * 7919 + 17 + sequence * 101) % vocabulary for i in range(count)]


def encoder_ids(batch: int, length: int, vocabulary: int) -> Any:
    """Those that tests/cpp/bench_encoder.cpp makes: (batch, length) int64."""
    import numpy as np

    ids = np.arange(batch * length, dtype=np.int64) * 2654435761 % vocabulary
    return ids.reshape(batch, length)


def token(i: int) -> str:
    """The id as a piece of text, for CTranslate2."""
    return f"t{i}"


def seconds_of(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


class Peer:
    """An engine. A subclass calls `imported` between its imports and loading the model, and sets
    `version`."""

    version: str

    def imported(self) -> None:
        self.before, self.start = memory(), time.perf_counter()

    def memory(self) -> Answer:
        """What the process holds, and what it held before the model."""
        return memory() | {"before": self.before}

    def serve(self) -> None:
        """Answers the lines of standard input."""
        hello = {"version": self.version, "load_seconds": time.perf_counter() - self.start}
        out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what a library prints is no answer
        print(json.dumps(hello), file=out, flush=True)
        for line in sys.stdin:
            name, *words = line.split()
            given = (int(word) if word.isdigit() else word for word in words)
            print(json.dumps(getattr(self, name)(*given)), file=out, flush=True)


# ---- decoders


class _Llama(Peer):
    """llama.cpp behind one of its bindings: a subclass has `step`, `clear` and `best`."""

    chooses = True  # whether `best` looks at the logits
    vocabulary: int
    sequences: int

    def set_options(self, options: Any, args: Args) -> None:
        self.sequences = args.sequences
        options.n_ctx, options.n_seq_max = args.context * args.sequences, args.sequences
        options.n_threads = options.n_threads_batch = args.threads
        options.n_batch = max(2048, args.context)

    def step(self, tokens: list[tuple[int, int, int, bool]]) -> None:
        """(id, position, sequence, logits wanted) of each."""
        raise NotImplementedError

    def clear(self) -> None:
        raise NotImplementedError

    def best(self, row: int) -> int:
        raise NotImplementedError

    def read(self, count: int, sequence: int) -> None:
        ids = prompt_ids(count, self.vocabulary, sequence)
        self.step([(token, i, sequence, i == count - 1) for i, token in enumerate(ids)])

    def prefill(self, count: int) -> Answer:
        self.clear()
        return {"seconds": seconds_of(lambda: self.read(count, 0))}

    def decode(self, prompt: int, steps: int, sequences: int = 1) -> Answer:
        self.clear()
        ids, out = [], []
        for sequence in range(sequences):
            self.read(prompt, sequence)
            ids.append(self.best(prompt - 1))
        start = time.perf_counter()
        for i in range(steps):
            out.append(ids[0])
            self.step([(ids[s], prompt + i, s, True) for s in range(sequences)])
            ids = [self.best(s) for s in range(sequences)]
        seconds = time.perf_counter() - start
        return {"seconds": seconds} | ({"ids": out} if self.chooses else {})

    def batch(self, prompt: int, steps: int) -> Answer:
        return self.decode(prompt, steps, self.sequences)


class LlamaCpp(_Llama):
    """Through llama-cpp-python's plain binding."""

    def __init__(self, args: Args) -> None:
        import numpy  # noqa: F401

        import llama_cpp as api

        self.imported()
        self.api = api
        built = Path(sys.prefix) / "llama_cpp.compiler"
        by = built.read_text().strip() if built.exists() else "an unknown compiler"
        self.version = f"llama-cpp-python {api.__version__}, built here with {by}"
        self.quiet = api.llama_log_callback(lambda *_: None)
        api.llama_log_set(self.quiet, None)
        api.llama_backend_init()
        params = api.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = api.llama_model_load_from_file(args.model.encode(), params)
        if not self.model:
            sys.exit(f"{args.model}: llama.cpp does not read it")
        self.vocabulary = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        options = api.llama_context_default_params()
        self.set_options(options, args)
        self.context = api.llama_init_from_model(self.model, options)
        if not self.context:
            sys.exit(f"{args.model}: llama.cpp gives no context of {args.context}")
        self.tokens = api.llama_batch_init(options.n_batch, 0, 1)
        self.rows: dict[int, Any] = {}

    def step(self, tokens: list[tuple[int, int, int, bool]]) -> None:
        b = self.tokens
        b.n_tokens = len(tokens)
        for i, (token, position, sequence, logits) in enumerate(tokens):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, position, 1, logits
            b.seq_id[i][0] = sequence
        if self.api.llama_decode(self.context, b) != 0:
            sys.exit("llama_decode failed")
        self.api.llama_synchronize(self.context)

    def best(self, row: int) -> int:
        """The row's largest logit. The logits stay where they are from step to step."""
        import ctypes

        import numpy as np

        pointer = self.api.llama_get_logits_ith(self.context, row)
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        if address not in self.rows:
            self.rows[address] = np.ctypeslib.as_array(pointer, (self.vocabulary,))
        return int(self.rows[address].argmax())

    def clear(self) -> None:
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), False)


class Cyllama(_Llama):
    """Through cyllama, where the other could not be built: its wheel picks kernels at run time. Its
    binding gives logits as a list, so no best one is looked for and the tokens are any."""

    chooses = False

    def __init__(self, args: Args) -> None:
        import cyllama
        from cyllama.llama import llama_cpp as api

        self.imported()
        api.disable_logging()
        self.api, self.made = api, 0
        self.version = f"cyllama {cyllama.__version__}, its wheel"
        params = api.LlamaModelParams()
        params.n_gpu_layers = 0
        members = {"n_vocab": property(lambda model: model.get_vocab().n_vocab)}
        self.model = type("Model", (api.LlamaModel,), members)(args.model, params, False)
        self.vocabulary = self.model.n_vocab
        options = api.LlamaContextParams()
        self.set_options(options, args)
        self.context = api.LlamaContext(self.model, options, False)

    def step(self, tokens: list[tuple[int, int, int, bool]]) -> None:
        batch = self.api.LlamaBatch(n_tokens=len(tokens), embd=0, n_seq_max=1)
        for token, position, sequence, logits in tokens:
            batch.add(token, position, [sequence], logits)
        if self.context.decode(batch) != 0:
            sys.exit("decode failed")

    def best(self, row: int) -> int:
        self.made += 1
        return self.made * 7919 % self.vocabulary

    def clear(self) -> None:
        self.context.kv_cache_clear()


def llama(args: Args) -> _Llama:
    return (LlamaCpp if importlib.util.find_spec("llama_cpp") else Cyllama)(args)


class _CTranslate2(Peer):
    """What CTranslate2's three kinds of model share."""

    def __init__(self, args: Args) -> None:
        import ctranslate2

        self.imported()
        self.api, self.version = ctranslate2, f"CTranslate2 {ctranslate2.__version__}"
        self.how = {
            "device": "cpu",
            "compute_type": args.compute,
            "inter_threads": 1,
            "intra_threads": args.threads,
        }


class CTranslate2Decoder(_CTranslate2):
    def __init__(self, args: Args) -> None:
        super().__init__(args)
        self.generator = self.api.Generator(args.model, **self.how)
        self.vocabulary, self.sequences = args.vocabulary, args.sequences

    def generate(self, prompt: int, count: int, sequences: int) -> tuple[float, list[int]]:
        """Seconds, and the new ids of the first sequence."""
        prompts = [
            [token(i) for i in prompt_ids(prompt, self.vocabulary, s)] for s in range(sequences)
        ]
        start = time.perf_counter()
        results = self.generator.generate_batch(
            prompts,
            max_length=count,
            min_length=count,
            sampling_topk=1,
            include_prompt_in_result=False,
        )
        return time.perf_counter() - start, [int(t[1:]) for t in results[0].sequences[0]]

    def prefill(self, count: int) -> Answer:
        return {"seconds": self.generate(count, 1, 1)[0]}

    def decode(self, prompt: int, steps: int, sequences: int = 1) -> Answer:
        one, _ = self.generate(prompt, 1, sequences)
        seconds, ids = self.generate(prompt, steps + 1, sequences)
        return {"seconds": seconds - one, "ids": ids[:steps]}

    def batch(self, prompt: int, steps: int) -> Answer:
        return self.decode(prompt, steps, self.sequences)


# ---- translators


def _sentences(args: Args) -> list[list[str]]:
    lines = (line.split() for line in Path(args.ids).read_text().splitlines())
    return [[token(int(word)) for word in line] for line in lines if line]


class CTranslate2SourceEncoder(_CTranslate2):
    """MODEL: a folder that translator.py wrote, of which this is the encoder by itself."""

    def __init__(self, args: Args) -> None:
        super().__init__(args)
        self.encoder = self.api.Encoder(f"{args.model}/encoder", **self.how)
        self.sentences = _sentences(args)

    def encode(self) -> Answer:
        return {
            "seconds": sum(
                seconds_of(lambda: self.encoder.forward_batch([s])) for s in self.sentences
            )
        }


class CTranslate2Translator(_CTranslate2):
    """MODEL: a folder that translator.py wrote."""

    def __init__(self, args: Args) -> None:
        super().__init__(args)
        self.translator = self.api.Translator(f"{args.model}/translator", **self.how)
        self.sentences = _sentences(args)
        never = json.loads(Path(f"{args.model}/never.json").read_text())
        self.never, self.most, self.beams = [[token(i)] for i in never], args.sequences, args.beams

    def translate(
        self, sentences: list[list[str]], length: int, batch: int = 1, beams: int = 1
    ) -> list[list[int]]:
        results = self.translator.translate_batch(
            sentences,
            beam_size=beams,
            max_decoding_length=length,
            min_decoding_length=length,
            suppress_sequences=self.never,
            max_batch_size=batch,
        )
        return [[int(t[1:]) for t in r.hypotheses[0]] for r in results]

    def greedy(self, count: int, length: int, beams: int = 1) -> Answer:
        start = time.perf_counter()
        ids = [self.translate([s], length, 1, beams)[0] for s in self.sentences[:count]]
        return {"seconds": time.perf_counter() - start, "ids": ids}

    def beam(self, count: int, length: int) -> Answer:
        return self.greedy(count, length, self.beams)

    def batch(self, length: int) -> Answer:
        return {"seconds": seconds_of(lambda: self.translate(self.sentences, length, self.most))}


# ---- encoders of sentences


class _Encoder(Peer):
    """A subclass has `vectors`: ids (batch, length) to a function that gives (batch, D)."""

    vocabulary: int

    def vectors(self, ids: Any) -> Run:
        raise NotImplementedError

    def run(self, batch: int, length: int, milliseconds: int) -> Answer:
        """Batches until so much time has passed, at least five after a warm one, and vectors of
        length one: as bench_encoder.cpp does."""
        import numpy as np

        vectors = self.vectors(encoder_ids(batch, length, self.vocabulary))
        times: list[float] = []
        begin = time.perf_counter()
        while len(times) < 6 or time.perf_counter() - begin < 1e-3 * milliseconds:
            start = time.perf_counter()
            y = vectors()
            y = y / np.linalg.norm(y, axis=1, keepdims=True)
            times.append(time.perf_counter() - start)
        return {
            "seconds": statistics.median(times[1:]),
            "rss_peak": memory()["peak"],
            "vector": [float(v) for v in y[0]],
        }


class CTranslate2Encoder(_CTranslate2, _Encoder):
    def __init__(self, args: Args) -> None:
        super().__init__(args)
        self.encoder, self.vocabulary = self.api.Encoder(args.model, **self.how), args.vocabulary

    def vectors(self, ids: Any) -> Run:
        import numpy as np

        rows = ids.tolist()
        return lambda: np.array(self.encoder.forward_batch(rows).last_hidden_state).mean(axis=1)


class OnnxRuntime(_Encoder):
    def __init__(self, args: Args) -> None:
        import onnxruntime

        self.imported()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
        spin = os.environ.get("BENCH_ONNX_SPIN", "1")  # a choice of bench.common.SETTINGS
        options.add_session_config_entry("session.intra_op.allow_spinning", spin)
        self.session = onnxruntime.InferenceSession(
            args.model, options, providers=["CPUExecutionProvider"]
        )
        self.vocabulary, self.version = args.vocabulary, f"ONNX Runtime {onnxruntime.__version__}"

    def vectors(self, ids: Any) -> Run:
        feed = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}
        return lambda: self.session.run(None, feed)[0].mean(axis=1)


class SentenceTransformers(_Encoder):
    """MODEL: a directory. int8 is torch's dynamic quantization of linear layers."""

    def __init__(self, args: Args) -> None:
        import sentence_transformers as api
        import torch

        self.imported()
        torch.set_num_threads(args.threads)
        model = api.SentenceTransformer(args.model, device="cpu").eval()
        if args.compute == "int8":
            layers = {torch.nn.Linear}
            model = torch.ao.quantization.quantize_dynamic(model, layers, dtype=torch.qint8)
        self.model, self.vocabulary = model, args.vocabulary
        self.version = f"sentence-transformers {api.__version__}, torch {torch.__version__}"

    def vectors(self, ids: Any) -> Run:
        import torch

        ids = torch.from_numpy(ids)
        feed = {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}

        def run() -> Any:
            with torch.inference_mode():
                return self.model(dict(feed))["sentence_embedding"].numpy()

        return run


# ---- matrix products


class _Product(Peer):
    """A subclass has `product`: sizes to a function that computes it."""

    made: dict[tuple[int, int, int], Run]

    def product(self, rows: int, outputs: int, inputs: int) -> Run:
        raise NotImplementedError

    def linear(self, _kind: str, *sizes: int) -> Answer:
        """The same loop as tests/cpp/bench_linear.cpp; always in f32."""
        if sizes not in self.made:
            self.made[sizes] = self.product(*sizes)
        run = self.made[sizes]
        run()
        repeat = max(1, int(1e-3 / (seconds_of(run) + 1e-9)))
        values: list[float] = []
        begin = time.perf_counter()
        while len(values) < 5 or (time.perf_counter() - begin < 0.05 and len(values) < 400):
            start = time.perf_counter()
            for _ in range(repeat):
                run()
            values.append((time.perf_counter() - start) / repeat)
        return {"seconds": statistics.median(values)}


class OpenBlas(_Product):
    def __init__(self, args: Args) -> None:
        import numpy as np

        self.imported()
        config = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        library = f"{config.get('name')} {config.get('version')}"
        self.made, self.version = {}, f"numpy {np.__version__}, {library}"

    def product(self, rows: int, outputs: int, inputs: int) -> Run:
        import numpy as np

        x = np.full((rows, inputs), 0.5, np.float32)
        w = np.full((inputs, outputs), 0.01, np.float32)
        y = np.empty((rows, outputs), np.float32)
        return lambda: np.matmul(x, w, out=y)


class OneDnn(_Product):
    """oneDNN with its weights in the layout that it likes best, as a deployed model has them."""

    def __init__(self, args: Args) -> None:
        import torch

        self.imported()
        torch.set_num_threads(args.threads)
        torch.set_grad_enabled(False)
        self.made, self.version = {}, f"torch {torch.__version__}"

    def product(self, rows: int, outputs: int, inputs: int) -> Run:
        import torch
        from torch.utils import mkldnn

        layer = mkldnn.to_mkldnn(torch.nn.Linear(inputs, outputs, bias=False).eval())
        x = torch.full((rows, inputs), 0.5).to_mkldnn()
        return lambda: layer(x)


PEERS: dict[str, Callable[[Args], Peer]] = {
    "llama": llama,
    "ct2-decoder": CTranslate2Decoder,
    "ct2-translator": CTranslate2Translator,
    "ct2-source-encoder": CTranslate2SourceEncoder,
    "ct2-encoder": CTranslate2Encoder,
    "onnx": OnnxRuntime,
    "sentence-transformers": SentenceTransformers,
    "numpy": OpenBlas,
    "torch": OneDnn,
}


@front_door("bench.peers")
def main(argv: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engine", choices=PEERS)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--compute", default="float32", help="float32 or int8")
    parser.add_argument("--ids", help="a file of source ids, a sentence a line")
    for name, default in (("threads", 1), ("context", 1024), ("sequences", 1), ("beams", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--vocabulary", type=int, help="from which ids are made")
    args = parser.parse_args(argv)
    PEERS[args.engine](args).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
