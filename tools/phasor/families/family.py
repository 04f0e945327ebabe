"""A family: one architecture of a library as a table. A lineage's module has its families; the
class that reads one follows from the stacks that its models have (decoder.py, encoder.py,
encoder_decoder.py).

A table names the tensors by part, the weight of each; a bias has the same name with `bias`:

    embedding positions segments embedding_norm projection         the input
    qkv | q k v, q_norm k_norm attention_norm attention_after attention_out
    attention_inner_norm ffn_inner_norm                            before the last matrix of each
    gates taps                                                     of a short convolution
    per_layer per_layer_projection per_layer_projection_norm       per-layer embeddings: the input's
    per_layer_gate per_layer_out per_layer_norm layer_scale        and a block's
    cross_q, cross_kv | cross_k cross_v, cross_norm cross_after cross_out
    ffn_in ffn_gate ffn_out ffn_norm ffn_after                     of a block
    final_norm output output_bias head output_head output_norm     after the last block

{layer} is a block's number, {stack} the stack that it is in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

from phasor.families.heads import Head
from phasor.families.hf_config import ACTIVATIONS
from phasor.format import descriptor as D


@dataclass(frozen=True)
class Family:
    """One architecture as a table; `adapt` says what no table can."""

    stack: int  # as the descriptor has it: D.ENCODER, D.DECODER or D.ENCODER_DECODER
    types: tuple[str, ...]  # model_type of config.json
    classes: tuple[str, ...]  # of transformers; of an encoder how their names begin
    trunk: str  # how the names of the stack's tensors begin where the model has a head
    names: Mapping[str, str]
    defaults: Mapping[str, Any]  # of transformers, for fields that config.json leaves out
    # What is its own: of a Decoder, an Encoder or an EncoderDecoder.
    adapt: Callable[[Any], None] = lambda made: None
    heads: Mapping[str, Head] = field(default_factory=dict)  # of an encoder, by its class's end
    # Where config.json has another name than most.
    fields: Mapping[str, str] = field(default_factory=dict)
    # A second name of a field: the two may not differ.
    aliases: Mapping[str, str] = field(default_factory=dict)
    harmless: tuple[str, ...] = ()
    neutral: Mapping[str, list[Any]] = field(default_factory=dict)  # values that change nothing
    newer: Mapping[str, Any] = field(default_factory=dict)  # defaults that transformers 5 changed
    unused: tuple[str, ...] = ()  # patterns of tensors that are buffers
    activations: Mapping[str, int] = field(default_factory=lambda: ACTIVATIONS)

    # Of a decoder.
    norm: int = D.RMS_NORM
    activation: int = 0  # of the code; 0: config.json says it
    gated: bool = False
    grouped: bool = True  # num_key_value_heads and head_dim are its fields
    # The feed-forward's width where config.json has none, as a multiple of the width.
    hidden_factor: int = 0
    positions: bool = True  # config.json says how many there are

    # Of an encoder-decoder.
    # The names that one embedding of both sides may have; the first that is there is taken, and the
    # others may not differ.
    embeddings: tuple[str, ...] = ()
    # Whether the logits are scaled where nothing says it, before transformers 5 and from then on.
    scaled: tuple[bool, bool] = (False, False)
    # Both stacks are read as this decoder's, from tables of their own (joined.py).
    half_of: Family | None = None
    # Of such halves: puts the configuration and the tensors of an encoder of texts in their places,
    # and what the pair has of its own.
    texts_of: Callable[[Any, Any], Any] = lambda config, checkpoint: checkpoint
    pair: Callable[[Any, Any], None] = lambda pair, config: pair.find_sharing()
    classifier: str = ""  # modules of a head with classes, in place of the output: their beginning

    tokenizer: str = ""  # the kind of an encoder-decoder's files (side_tokenizers.py)
    wordpiece: bool = False  # a vocab.txt is BERT's WordPiece
    tokenizer_code: str = ""  # what its tokenizer does that no file says
    # Published with code of its own (auto_map), which this family's table restates.
    custom_code: bool = False
    # Says itself which of its configurations are not supported (hf_config.refuse).
    judges: bool = False
    told_by: str = ""  # a field that tells its configurations from others of this type and class
    half: bool = False  # only as a half of an EncoderDecoderModel
