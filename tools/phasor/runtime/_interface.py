# Generated from include/phasor.h and src/facts/abi.toml by `make generate`: edit that, not this.
from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_float,
    c_int,
    c_int32,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from enum import IntEnum
from typing import Any


class Status(IntEnum):
    """What a function of the library returns."""

    OK = 0
    BAD_FILE = 1
    BAD_CHECKSUM = 2
    UNSUPPORTED = 3
    TOO_LARGE = 4
    NO_MEMORY = 5
    BAD_LIMITS = 6
    BAD_INPUT = 7
    FULL = 8
    NOT_FINITE = 9
    STOPPED = 10
    BAD_ARITHMETIC = 11
    BAD_STATE = 12
    MISMATCH = 13


ALIGN = 64
BEST_ALL = 4
BEST_LAST = 3
CACHE_F16 = 1
CACHE_F32 = 0
CACHE_Q8 = 2
DECODER = 2
EARLY_NEVER = 2
EARLY_NO = 0
EARLY_YES = 1
ENCODER = 1
ENCODER_DECODER = 3
EXPANSION_HIDDEN = 1
EXPANSION_NONE = 0
EXPANSION_SEEN = 2
FINISH_END = 1
FINISH_LENGTH = 2
FINISH_STOPPED = 3
FINISH_STRING = 4
LENGTH_GNMT = 1
LENGTH_POWER = 0
LOGITS_ALL = 2
LOGITS_LAST = 1
LOGITS_NONE = 0
NONE = 4294967295
NORMALIZE_MODEL = 0
NORMALIZE_NO = 2
NORMALIZE_YES = 1
OUTPUT_CLASSES = 4
OUTPUT_HIDDEN = 2
OUTPUT_LOGITS = 1
OUTPUT_POOLED = 3
PIECE_ADDED = 1
PIECE_SPECIAL = 2
POOL_FIRST = 2
POOL_LAST = 3
POOL_MAX = 4
POOL_MEAN = 1
POOL_MODEL = 0
SCORES_PLAIN = 2
SCORES_SIGMOID = 1
SCORES_SOFTMAX = 0
SEE_CROSS_ATTENTION = 3
SEE_EMBEDDING = 4
SEE_FINAL = 5
SEE_RESIDUAL = 1
SEE_SELF_ATTENTION = 2
SOURCE = 1
TABLES_ROWS = 1
TABLES_WHOLE = 0
TARGET = 2
TYPES = 20
WANT_ATTENTION = 1
WANT_COVERAGE = 8
WANT_OFFSETS = 16
WANT_SAMPLING = 2
WANT_SHORTLIST = 4

Task = CFUNCTYPE(None, c_void_p, c_uint32)


class BeamOptions(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("beams", c_uint32),
        ("max_new", c_uint32),
        ("early_stopping", c_uint32),
        ("length_penalty", c_float),
        ("forced_count", c_uint32),
        ("forced", POINTER(c_uint32)),
        ("no_repeat_ngram", c_uint32),
        ("min_new", c_uint32),
        ("suppressed", POINTER(c_uint32)),
        ("end", POINTER(c_uint32)),
        ("suppressed_count", c_uint32),
        ("end_count", c_uint32),
        ("logits", CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint32, c_void_p, c_uint32)),
        ("user", c_void_p),
        ("repetition_penalty", c_float),
        ("length_norm", c_uint32),
        ("bad_words", POINTER(c_uint32)),
        ("source", POINTER(c_uint32)),
        ("forced_last", POINTER(c_uint32)),
        ("stop", POINTER(c_void_p)),
        ("bad_words_count", c_uint32),
        ("source_count", c_uint32),
        ("source_no_repeat_ngram", c_uint32),
        ("stop_count", c_uint32),
        ("groups", c_uint32),
        ("diversity_penalty", c_float),
        ("coverage_penalty", c_float),
        ("renormalize", c_uint32),
    ]


class BeamResult(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("count", c_uint32),
        ("steps", c_uint32),
    ]


class ChatMessage(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("role", c_void_p),
        ("role_bytes", c_size_t),
        ("content", c_void_p),
        ("content_bytes", c_size_t),
    ]


class Error(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("code", c_int32),
        ("section", c_uint32),
        ("layer", c_uint32),
        ("expected", c_uint64),
        ("found", c_uint64),
        ("text", c_char * 160),
    ]


class Field(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("name", c_char * 48),
        ("value", c_char * 208),
    ]


class Generation(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("count", c_uint32),
        ("finish", c_uint32),
        ("steps", c_uint32),
        ("proposed", c_uint32),
        ("accepted", c_uint32),
        ("slides", c_uint32),
        ("reused", c_uint32),
    ]


class Hypothesis(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("count", c_uint32),
        ("finish", c_uint32),
        ("score", c_float),
        ("log_probability", c_float),
        ("ids", POINTER(c_uint32)),
    ]


class Item(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("sequence", c_uint32),
        ("count", c_uint32),
        ("logits", c_uint32),
        ("ids", POINTER(c_uint32)),
        ("embeddings", POINTER(c_float)),
        ("segments", POINTER(c_uint32)),
        ("positions", POINTER(c_uint32)),
        ("states", POINTER(c_float)),
        ("seen", c_uint32),
        ("reserved", c_uint32),
    ]


class Limits(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("source", c_uint32),
        ("target", c_uint32),
        ("sequences", c_uint32),
        ("chunk", c_uint32),
        ("threads", c_uint32),
        ("text_bytes", c_uint32),
        ("logit_rows", c_uint32),
        ("cache_type", c_uint32),
        ("outputs", c_uint32),
        ("tables", c_uint32),
        ("best_rows", c_uint32),
        ("beams", c_uint32),
        ("searches", c_uint32),
    ]


class OpenOptions(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("isa", c_void_p),
        ("decoder_start", POINTER(c_uint32)),
        ("forced_first", POINTER(c_uint32)),
    ]


class Output(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("output", c_uint32),
        ("pooling", c_uint32),
        ("normalize", c_uint32),
        ("classes", c_uint32),
        ("scores", c_uint32),
        ("width", c_uint32),
        ("segments", c_uint32),
        ("prompts", c_uint32),
        ("query_length", c_uint32),
        ("document_length", c_uint32),
        ("query_marker", c_uint32),
        ("document_marker", c_uint32),
        ("expansion", c_uint32),
    ]


class Parallel(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("run", CFUNCTYPE(None, c_void_p, Task, c_void_p, c_uint32)),
        ("user", c_void_p),
    ]


class QuantizeOptions(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("type", c_void_p),
        ("output_type", c_void_p),
        ("moments", POINTER(c_float)),
        ("moment_count", c_uint64),
        ("inputs", c_uint32),
        ("types", POINTER(c_void_p)),
        ("type_count", c_uint32),
        ("rotated", c_uint64),
    ]


class Random(Structure):
    _fields_ = [
        ("state", c_uint64 * 4),
    ]


class Record(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("divergence", c_float),
        ("numerics", c_uint32),
        ("rows", c_uint32),
        ("samples", c_uint32),
        ("outputs", POINTER(c_uint32)),
        ("source", c_void_p),
        ("calibration", c_void_p),
        ("method", c_void_p),
        ("method_bytes", c_uint32),
    ]


class Rounding(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("type", c_void_p),
        ("tensor", c_void_p),
        ("bytes", c_uint64),
        ("largest", c_float),
        ("share", c_float),
    ]


class Side(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("vocabulary", c_uint32),
        ("has_tokenizer", c_uint32),
        ("pad", c_uint32),
        ("unknown", c_uint32),
        ("start", c_uint32),
        ("decoder_start", c_uint32),
        ("forced_first", c_uint32),
        ("mask", c_uint32),
        ("end_count", c_uint32),
        ("prefix_count", c_uint32),
        ("suffix_count", c_uint32),
        ("end", POINTER(c_uint32)),
        ("prefix", POINTER(c_uint32)),
        ("suffix", POINTER(c_uint32)),
        ("max_positions", c_uint32),
        ("width", c_uint32),
        ("layers", c_uint32),
    ]


class Tensor(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("stack", c_uint32),
        ("set", c_uint32),
        ("role", c_uint32),
        ("name", c_void_p),
        ("type", c_void_p),
        ("layout", c_void_p),
        ("rows", c_uint64),
        ("cols", c_uint64),
        ("offset", c_uint64),
        ("bytes", c_uint64),
        ("inputs", c_uint32),
        ("rotated", c_uint64),
    ]


class Text(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("state", c_uint32 * 7),
    ]


class Vector(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("source_count", c_uint32),
        ("target_count", c_uint32),
        ("tolerance", c_float),
        ("hash", c_uint64),
        ("numerics", c_uint32),
        ("source", POINTER(c_uint32)),
        ("target", POINTER(c_uint32)),
        ("author", c_void_p),
        ("author_bytes", c_uint32),
    ]


class VectorResult(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("argmax_differs", c_uint32),
        ("hash", c_uint64),
        ("worst_logit", c_float),
        ("worst_position", c_uint32),
        ("worst_residual", c_float),
        ("worst_stack", c_uint32),
        ("worst_layer", c_uint32),
        ("worst_lead", c_float),
    ]


class View(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("what", c_uint32),
        ("stack", c_uint32),
        ("layer", c_uint32),
        ("sequence", c_uint32),
        ("position", c_uint32),
        ("rows", c_uint32),
        ("cols", c_uint32),
        ("heads", c_uint32),
        ("reserved", c_uint32),
        ("stride", c_size_t),
        ("head_stride", c_size_t),
        ("data", POINTER(c_float)),
    ]


class Callbacks(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("see", CFUNCTYPE(None, c_void_p, c_void_p)),
        ("progress", CFUNCTYPE(c_int, c_void_p, c_uint32, c_uint32, c_uint32)),
        ("user", c_void_p),
        ("shortlist", CFUNCTYPE(None, c_void_p, c_void_p, c_uint32, c_void_p, c_uint32)),
    ]


class GenerateOptions(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("max_new", c_uint32),
        ("forced", POINTER(c_uint32)),
        ("forced_count", c_uint32),
        ("token", CFUNCTYPE(c_int, c_void_p, c_uint32, c_uint32)),
        ("logits", CFUNCTYPE(c_int, c_void_p, c_void_p, c_uint32, c_void_p, c_uint32)),
        ("user", c_void_p),
        ("temperature", c_float),
        ("top_k", c_uint32),
        ("top_p", c_float),
        ("min_p", c_float),
        ("typical_p", c_float),
        ("repetition_penalty", c_float),
        ("presence_penalty", c_float),
        ("frequency_penalty", c_float),
        ("no_repeat_ngram", c_uint32),
        ("min_new", c_uint32),
        ("suppressed", POINTER(c_uint32)),
        ("end", POINTER(c_uint32)),
        ("suppressed_count", c_uint32),
        ("end_count", c_uint32),
        ("seed", c_uint64),
        ("random", POINTER(Random)),
        ("text", CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t)),
        ("stop", POINTER(c_void_p)),
        ("stop_count", c_uint32),
        ("reuse", c_uint32),
        ("slide", c_uint32),
        ("keep", c_uint32),
        ("lookahead", c_uint32),
        ("bad_words", POINTER(c_uint32)),
        ("source", POINTER(c_uint32)),
        ("bad_words_count", c_uint32),
        ("source_count", c_uint32),
        ("source_no_repeat_ngram", c_uint32),
        ("reserved", c_uint32),
        ("forced_last", POINTER(c_uint32)),
    ]


class Job(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("count", c_uint32),
        ("ids", POINTER(c_uint32)),
        ("out", POINTER(c_uint32)),
        ("capacity", c_uint32),
        ("made", c_uint32),
        ("finish", c_uint32),
        ("status", c_uint32),
        ("sequence", c_uint32),
        ("found", c_uint32),
        ("random", Random),
        ("n_best", c_uint32),
        ("reserved", c_uint32),
        ("outputs", POINTER(Hypothesis)),
    ]


FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "phasor_argmax": (c_int, c_void_p, c_uint32, POINTER(c_uint32), POINTER(c_float)),
    "phasor_beam_defaults": (c_int, c_void_p, POINTER(BeamOptions)),
    "phasor_beam_jobs_run": (
        c_int,
        c_void_p,
        POINTER(Job),
        c_uint32,
        POINTER(BeamOptions),
        POINTER(Error),
    ),
    "phasor_beam_jobs_step": (
        c_int,
        c_void_p,
        POINTER(Job),
        c_uint32,
        POINTER(BeamOptions),
        POINTER(c_uint32),
        POINTER(Error),
    ),
    "phasor_beam_search": (
        c_int,
        c_void_p,
        c_uint32,
        POINTER(c_uint32),
        c_uint32,
        POINTER(BeamOptions),
        POINTER(BeamResult),
        POINTER(Error),
    ),
    "phasor_chat_available": (c_int, c_void_p),
    "phasor_chat_to_text": (
        c_int,
        c_void_p,
        c_int,
        c_void_p,
        c_size_t,
        POINTER(c_size_t),
        POINTER(ChatMessage),
        c_uint32,
        POINTER(Error),
    ),
    "phasor_choose": (
        c_int,
        c_void_p,
        POINTER(c_uint32),
        POINTER(c_float),
        c_uint32,
        POINTER(c_uint32),
        c_uint32,
        c_uint32,
        POINTER(GenerateOptions),
        POINTER(Error),
    ),
    "phasor_embedding": (
        c_int,
        c_void_p,
        c_uint32,
        c_uint32,
        c_uint32,
        POINTER(c_float),
        c_uint32,
        POINTER(Error),
    ),
    "phasor_encode": (c_int, c_void_p, POINTER(Item), c_uint32, POINTER(Error)),
    "phasor_encoder_output": (c_int, c_void_p, c_uint32, c_uint32, c_uint32, POINTER(Error)),
    "phasor_field_count": (c_uint32, c_void_p),
    "phasor_field_get": (c_int, c_void_p, c_uint32, POINTER(Field)),
    "phasor_format_max": (c_uint32,),
    "phasor_generate": (
        c_int,
        c_void_p,
        c_uint32,
        POINTER(c_uint32),
        c_uint32,
        POINTER(c_uint32),
        c_uint32,
        POINTER(GenerateOptions),
        POINTER(Generation),
        POINTER(Error),
    ),
    "phasor_generation_defaults": (c_int, c_void_p, POINTER(GenerateOptions)),
    "phasor_hidden": (POINTER(c_float), c_void_p, c_uint32, POINTER(c_uint32), POINTER(c_uint32)),
    "phasor_hypothesis_get": (c_int, c_void_p, c_uint32, POINTER(Hypothesis)),
    "phasor_id_to_text": (
        c_int,
        c_void_p,
        c_uint32,
        POINTER(Text),
        c_uint32,
        c_void_p,
        c_size_t,
        POINTER(c_size_t),
    ),
    "phasor_isa_name": (c_void_p, c_uint32),
    "phasor_jobs_run": (
        c_int,
        c_void_p,
        POINTER(Job),
        c_uint32,
        POINTER(GenerateOptions),
        POINTER(Error),
    ),
    "phasor_jobs_step": (
        c_int,
        c_void_p,
        POINTER(Job),
        c_uint32,
        POINTER(GenerateOptions),
        POINTER(c_uint32),
        POINTER(Error),
    ),
    "phasor_label": (c_void_p, c_void_p, c_uint32, POINTER(c_size_t)),
    "phasor_limits_for": (c_int, c_void_p, c_uint32, c_uint32, POINTER(Limits)),
    "phasor_logits": (POINTER(c_float), c_void_p, c_uint32),
    "phasor_model_check": (c_int, c_void_p, POINTER(Error)),
    "phasor_model_isa": (c_void_p, c_void_p),
    "phasor_model_open": (
        c_int,
        POINTER(c_void_p),
        c_void_p,
        c_size_t,
        c_void_p,
        c_size_t,
        POINTER(OpenOptions),
        POINTER(Error),
    ),
    "phasor_model_output": (c_int, c_void_p, POINTER(Output)),
    "phasor_model_side": (c_int, c_void_p, c_uint32, POINTER(Side)),
    "phasor_model_size": (c_int, POINTER(c_size_t), c_void_p, c_size_t, POINTER(Error)),
    "phasor_model_stack": (c_uint32, c_void_p),
    "phasor_numerics": (c_uint32,),
    "phasor_pair_to_ids": (
        c_int,
        c_void_p,
        c_uint32,
        POINTER(c_uint32),
        POINTER(c_uint32),
        c_size_t,
        POINTER(c_size_t),
        c_void_p,
        c_size_t,
        c_void_p,
        c_size_t,
        POINTER(Error),
    ),
    "phasor_piece": (c_void_p, c_void_p, c_uint32, c_uint32, POINTER(c_size_t)),
    "phasor_piece_flags": (c_uint32, c_void_p, c_uint32, c_uint32),
    "phasor_prompt": (
        c_int,
        c_void_p,
        c_uint32,
        POINTER(c_void_p),
        POINTER(c_size_t),
        POINTER(c_void_p),
        POINTER(c_size_t),
    ),
    "phasor_quantize": (
        c_int,
        c_void_p,
        c_size_t,
        POINTER(Rounding),
        c_uint32,
        c_void_p,
        c_size_t,
        POINTER(QuantizeOptions),
        POINTER(Error),
    ),
    "phasor_quantize_size": (
        c_int,
        POINTER(c_size_t),
        c_void_p,
        c_size_t,
        POINTER(QuantizeOptions),
        POINTER(Error),
    ),
    "phasor_random_seed": (None, POINTER(Random), c_uint64),
    "phasor_record_get": (c_int, c_void_p, POINTER(Record)),
    "phasor_record_put": (c_int, c_void_p, c_void_p, POINTER(Record), POINTER(Error)),
    "phasor_sequence_clear": (c_int, c_void_p, c_uint32),
    "phasor_sequence_common": (c_uint32, c_void_p, c_uint32, POINTER(c_uint32), c_uint32),
    "phasor_sequence_fork": (c_int, c_void_p, c_uint32, c_uint32),
    "phasor_sequence_ids": (POINTER(c_uint32), c_void_p, c_uint32),
    "phasor_sequence_length": (c_uint32, c_void_p, c_uint32),
    "phasor_sequence_status": (c_int, c_void_p, c_uint32),
    "phasor_sequence_truncate": (c_int, c_void_p, c_uint32, c_uint32),
    "phasor_session_callbacks": (c_int, c_void_p, POINTER(Callbacks)),
    "phasor_session_open": (
        c_int,
        POINTER(c_void_p),
        c_void_p,
        c_size_t,
        c_void_p,
        POINTER(Limits),
        POINTER(Parallel),
        POINTER(Error),
    ),
    "phasor_session_size": (c_int, POINTER(c_size_t), c_void_p, POINTER(Limits), POINTER(Error)),
    "phasor_state_restore": (c_int, c_void_p, c_uint32, c_void_p, c_size_t, POINTER(Error)),
    "phasor_state_save": (c_int, c_void_p, c_uint32, c_void_p, c_size_t),
    "phasor_state_size": (c_int, c_void_p, c_uint32, POINTER(c_size_t)),
    "phasor_status_name": (c_void_p, c_int),
    "phasor_step": (c_int, c_void_p, POINTER(Item), c_uint32, POINTER(Error)),
    "phasor_tensor_count": (c_uint32, c_void_p),
    "phasor_tensor_get": (c_int, c_void_p, c_uint32, POINTER(Tensor)),
    "phasor_text_flush": (
        c_int,
        c_void_p,
        c_uint32,
        POINTER(Text),
        c_void_p,
        c_size_t,
        POINTER(c_size_t),
    ),
    "phasor_text_to_ids": (
        c_int,
        c_void_p,
        c_uint32,
        c_int,
        POINTER(c_uint32),
        c_size_t,
        POINTER(c_size_t),
        c_void_p,
        c_size_t,
        POINTER(Error),
    ),
    "phasor_text_to_offsets": (
        c_int,
        c_void_p,
        c_uint32,
        c_int,
        POINTER(c_uint32),
        POINTER(c_uint32),
        c_size_t,
        POINTER(c_size_t),
        c_void_p,
        c_size_t,
        POINTER(Error),
    ),
    "phasor_vector_count": (c_uint32, c_void_p),
    "phasor_vector_get": (c_int, c_void_p, c_uint32, POINTER(Vector)),
    "phasor_vector_record": (c_int, c_void_p, c_void_p, POINTER(c_uint64), c_float, POINTER(Error)),
    "phasor_vector_run": (c_int, c_void_p, c_uint32, POINTER(VectorResult), POINTER(Error)),
    "phasor_version": (c_uint32,),
}
