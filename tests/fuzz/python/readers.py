"""The readers of foreign bytes, each with the modules of tools/phasor that read them (or patterns
of their names), and the maker of its hostile inputs. `make check` compares READERS with the modules
that open files."""

from __future__ import annotations

import random

import checkpoints
import directories
import text_inputs
import weight_files
import words
from source import Source

READERS = {
    "safetensors": ("checkpoints/safetensors.py", "checkpoints/tensors.py", "sources/find.py"),
    "shards": ("checkpoints/checkpoint.py",),
    "torch-zip": ("checkpoints/torch_file.py", "checkpoints/pickles.py"),
    "torch-legacy": ("checkpoints/torch_file.py", "checkpoints/pickles.py"),
    "gguf": ("sources/gguf/container.py", "sources/gguf/decoder.py"),
    "gguf-tokenizer": ("sources/gguf/tokenizer.py", "tokenizers/pieces.py"),
    "llama2c": ("sources/llama2c/model.py",),
    "moments": ("moments.py",),
    "expect": ("checkpoints/npz.py", "expect.py"),
    "npz-weights": ("checkpoints/npz.py", "checkpoints/wrappers.py"),
    "config": (
        "sources/hugging_face/directory.py",
        "families/hf_config.py",
        "families/fields.py",
        "families/decoder.py",
        "families/encoder.py",
        "families/encoder_decoder.py",
        "families/family.py",
        "families/positioned.py",
        "families/sinusoids.py",
        "families/stack.py",
        "families/*_like.py",
        "families/decoders/*.py",
        "families/encoders/*.py",
        "families/encoder_decoders/*.py",
        "families/joined.py",
        "families/rotary_scaling.py",
        "families/model.py",
    ),
    "generation": ("families/generation.py", "side_files.py"),
    "sentence": (
        "sources/sentence_transformers/modules.py",
        "sources/sentence_transformers/static.py",
        "sources/sentence_transformers/late.py",
        "sources/sentence_transformers/setfit.py",
        "checkpoints/joblib_file.py",
        "checkpoints/pickles.py",
    ),
    "adapter": ("sources/lora/adapter.py",),
    "packed": ("checkpoints/packed.py", "sources/hugging_face/packed.py"),
    "ctranslate2": ("sources/ctranslate2/container.py", "sources/ctranslate2/translator.py"),
    "marian": (
        "sources/marian/translator.py",
        "checkpoints/npz.py",
        "sources/marian/vocabulary.py",
    ),
    "tokenizer-json": (
        "sources/hugging_face/tokenizer_json.py",
        "sources/hugging_face/around.py",
        "sources/hugging_face/configured.py",
        "sources/hugging_face/added.py",
        "tokenizers/export.py",
        "tokenizers/json_parts.py",
        "tokenizers/pre_tokenizers.py",
        "tokenizers/classes.py",
        "tokenizers/merges.py",
        "tokenizers/vocabulary.py",
        "tokenizers/section.py",
        "tokenizers/models/bert_bpe.py",
        "tokenizers/models/byte_bpe.py",
        "tokenizers/models/char_bpe.py",
        "tokenizers/models/metaspace.py",
        "tokenizers/models/metaspace_bpe.py",
        "tokenizers/first_map.py",
        "tokenizers/models/unigram.py",
        "tokenizers/models/wordpiece.py",
        "sources/sentence_transformers/embedder.py",
    ),
    "tokenizer-config": (
        "sources/hugging_face/tokenizer_json.py",
        "sources/hugging_face/tokenizers.py",
        "sources/hugging_face/template.py",
    ),
    "vocabulary": (
        "sources/hugging_face/tokenizer_json.py",
        "sources/hugging_face/older_files.py",
        "sources/hugging_face/added.py",
        "tokenizers/vocabulary.py",
        "tokenizers/models/word_list.py",
        "sources/tokenizer_files.py",
    ),
    "sentencepiece": (
        "tokenizers/sentencepiece.py",
        "tokenizers/charsmap.py",
        "tokenizers/tokenizer.py",
        "tokenizers/models/sentencepiece_bpe.py",
        "sources/hugging_face/tokenizer_model.py",
        "tokenizers/models/unigram.py",
    ),
    "llama2c-tokenizer": ("sources/llama2c/tokenizer.py",),
    "tiktoken": ("tokenizers/tiktoken.py",),
    "patterns": ("tokenizers/patterns/*.py", "tokenizers/pre_tokenizers.py"),
    "pipeline": ("tokenizers/pipeline/*.py", "tokenizers/models/pipeline.py"),
    "characters": ("tokenizers/characters.py", "checkpoints/pickles.py"),
    "fairseq": ("sources/fairseq/dictionary.py", "tokenizers/models/word_bpe.py"),
    "translator-tokenizer": (
        "tokenizers/listed.py",
        "sources/hugging_face/numbered.py",
        "tokenizers/models/word_bpe.py",
        "sources/hugging_face/side_tokenizers.py",
        "tokenizers/sentencepiece.py",
    ),
    "description": (
        "sources/state_dict/description.py",
        "sources/state_dict/keys.py",
        "sources/state_dict/model.py",
        "sources/state_dict/outputs.py",
        "sources/state_dict/presets.py",
        "sources/state_dict/tensors.py",
        "sources/state_dict/vectors.py",
        "families/names.py",
        "files.py",
    ),
    "explain": ("drafts/*.py", "drafts/explain.py"),
    "chat-template": (
        "convert.py",
        "sources/hugging_face/template.py",
        "chat/template.py",
        "chat/syntax.py",
        "chat/compiler.py",
        "chat/expressions.py",
        "chat/statements.py",
        "chat/calls.py",
        "chat/values.py",
        "chat/state.py",
        "chat/abstract.py",
        "chat/assembler.py",
        "chat/content.py",
        "chat/instructions.py",
    ),
    "weight-file": (
        "format/file.py",
        "format/descriptor.py",
        "format/meta.py",
        "format/layout.py",
        "format/tensors.py",
    ),
}

_MAKERS = {
    "safetensors": lambda rng, _: checkpoints.make_safetensors(rng),
    "shards": lambda rng, _: checkpoints.make_shards(rng),
    "torch-zip": lambda rng, _: checkpoints.make_torch_zip(rng),
    "torch-legacy": lambda rng, _: checkpoints.make_torch_legacy(rng),
    "gguf": checkpoints.make_gguf,
    "gguf-tokenizer": checkpoints.make_gguf_tokenizer,
    "llama2c": checkpoints.make_llama2c,
    "moments": lambda rng, _: checkpoints.make_npy(rng),
    "expect": lambda rng, _: checkpoints.make_npz(rng),
    "npz-weights": lambda rng, _: text_inputs.make_npz_weights(rng),
    "config": directories.make_config,
    "generation": directories.make_generation,
    "sentence": directories.make_sentence,
    "adapter": directories.make_adapter,
    "packed": directories.make_packed,
    "ctranslate2": directories.make_ctranslate2,
    "marian": directories.make_marian,
    "tokenizer-json": directories.make_tokenizer_json,
    "tokenizer-config": directories.make_tokenizer_config,
    "vocabulary": directories.make_vocabulary,
    "sentencepiece": directories.make_sentencepiece,
    "llama2c-tokenizer": directories.make_llama2c_tokenizer,
    "tiktoken": directories.make_tiktoken,
    "patterns": directories.make_patterns,
    "pipeline": directories.make_pipeline,
    "characters": directories.make_characters,
    "fairseq": directories.make_fairseq,
    "translator-tokenizer": directories.make_translator_tokenizer,
    "description": text_inputs.make_description,
    "explain": text_inputs.make_explained,
    "chat-template": text_inputs.make_template,
    "weight-file": weight_files.make_weight_file,
}
assert list(_MAKERS) == list(READERS)


def source(reader: str, number: int) -> Source:
    """Hostile input `number` of a reader: the same on every machine."""
    rng = random.Random(f"{reader} {number}")
    made = _MAKERS[reader](rng, words.of(READERS[reader]))
    flags = {"--type", "--explain"} & set(made.arguments)
    if made.door == "convert" and not flags and rng.random() < 0.1:
        kinds = ("q8", "q4", "f16", "bf16", "q8r", "q8rh", "q4m", "q4k", "q6", "q4x", "q3", "q5k")
        kind = rng.choice(kinds)
        return made._replace(arguments=(*made.arguments, "--type", kind))
    return made
