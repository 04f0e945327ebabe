"""Every reader of foreign bytes and every entry, and what proves it. Literals only.

`make check` (row entries, tools/make/entries.py) finds the readers by itself: functions of
include/phasor.h, sources of src/cli, the program's commands, modules of tools/phasor, front doors.
It fails on one that has no row here, and on a row whose proof is not there. Who adds a reader adds
in the same commit:

- a fuzz target: tests/fuzz/TARGET.cpp, its row in tests/fuzz/targets.cpp and its seeds in
  tests/fuzz/corpus/TARGET; in Python a reader with a maker in tests/fuzz/python/readers.py;
- hostile examples in a test that names the function, the source or the reader's module;
- where it opens a file or writes one: a command in tests/machines/faults/rows.py.
"""

# Function of include/phasor.h that takes bytes or texts: fuzz targets, test with hostile examples.
LIBRARY = {
    "phasor_model_size": ("open run", "tests/cpp/test_format.cpp"),
    "phasor_model_open": ("open run limits", "tests/cpp/test_format.cpp"),
    "phasor_vector_run": ("vectors", "tests/cpp/test_arena.cpp"),
    "phasor_record_put": ("vectors", "tests/cpp/test_record.cpp"),
    "phasor_state_restore": ("state", "tests/cpp/test_engine.cpp"),
    "phasor_generate": ("generate", "tests/cpp/test_generate.cpp"),
    "phasor_jobs_step": ("generate", "tests/cpp/test_jobs.cpp"),
    "phasor_jobs_run": ("generate", "tests/cpp/test_jobs.cpp"),
    "phasor_beam_jobs_step": ("generate", "tests/cpp/test_jobs.cpp"),
    "phasor_beam_jobs_run": ("generate", "tests/cpp/test_jobs.cpp"),
    "phasor_beam_search": ("generate", "tests/cpp/test_beam.cpp"),
    "phasor_choose": ("generate", "tests/cpp/test_sampling.cpp"),
    "phasor_text_to_ids": ("tokenizer normalizer run", "tests/cpp/properties/properties.cpp"),
    "phasor_text_to_offsets": ("tokenizer", "tests/cpp/test_structs.cpp"),
    "phasor_pair_to_ids": ("tokenizer run", "tests/cpp/properties/properties.cpp"),
    "phasor_chat_to_text": ("chat run", "tests/cpp/test_chat.cpp"),
    "phasor_quantize_size": ("quantize", "tests/cpp/test_quantize.cpp"),
    "phasor_quantize": ("quantize", "tests/cpp/test_quantize.cpp"),
}

# Source of src/cli that takes a stranger's file, line or argument: fuzz targets, test.
PROGRAM = {
    "options/flag": ("arguments", "tests/python/test_cli.py"),
    "options/input": ("input", "tests/python/test_cli.py"),
    "io/text": ("input", "tests/python/test_outside.py"),
    "io/file": ("file", "tests/python/test_outside.py"),
    "host/mapping": ("file", "tests/cpp/test_mapping.cpp"),
    "io/foreign": ("file", "tests/python/test_shell.py"),
    "io/npy": ("npy", "tests/python/test_outside.py"),
    "io/shortlist": ("shortlist", "tests/python/test_shortlist.py"),
    "io/json": ("json", "tests/python/test_cli.py"),
    "io/tokenizer_json": ("export", "tests/python/test_export.py"),
}

# Reader of tests/fuzz/python/readers.py, which has its modules: test with hostile examples, and
# commands of tests/machines/faults/rows.py that open its files.
CONVERTER = {
    "safetensors": ("tests/python/test_hostile_checkpoints.py", "convert safetensors"),
    "shards": ("tests/python/test_hostile_checkpoints.py", "convert directory"),
    "torch-zip": ("tests/python/test_hostile_checkpoints.py", "convert"),
    "torch-legacy": ("tests/python/test_hostile_checkpoints.py", "convert legacy"),
    "gguf": ("tests/python/test_gguf.py", "convert gguf"),
    "gguf-tokenizer": ("tests/python/test_hostile_tokenizers.py", "convert gguf"),
    "llama2c": ("tests/python/test_llama2c.py", "convert llama2c"),
    "moments": ("tests/python/test_moments.py", "convert llama2c"),
    "expect": ("tests/python/test_expect.py", "convert expect"),
    "npz-weights": ("tests/python/test_wrapped.py", "convert expect"),
    "config": ("tests/python/test_hostile_tokenizers.py", "convert directory"),
    "generation": ("tests/python/test_hostile_tokenizers.py", "convert directory"),
    "sentence": ("tests/python/test_convert_hf.py", "convert directory"),
    "adapter": ("tests/python/test_hostile_checkpoints.py", "convert directory"),
    "packed": ("tests/python/test_packed.py", "convert directory"),
    "ctranslate2": ("tests/python/test_ctranslate2.py", "convert ctranslate2"),
    "marian": ("tests/python/test_marian.py", "convert marian"),
    "tokenizer-json": ("tests/python/test_hostile_tokenizers.py", "convert directory"),
    "tokenizer-config": ("tests/python/test_hostile_tokenizers.py", "convert directory"),
    "vocabulary": ("tests/python/test_hostile_tokenizers.py", "convert gguf"),
    "sentencepiece": ("tests/python/test_hostile_tokenizers.py", "convert marian"),
    "llama2c-tokenizer": ("tests/python/test_llama2c.py", "convert llama2c"),
    "tiktoken": ("tests/python/test_tiktoken.py", "convert tekken"),
    "patterns": ("tests/python/test_patterns.py", "convert directory"),
    "pipeline": ("tests/python/test_pipeline.py", "convert directory"),
    "characters": ("tests/python/test_characters.py", "convert characters"),
    "fairseq": ("tests/python/test_fairseq_files.py", "convert fairseq"),
    "translator-tokenizer": ("tests/python/test_convert_translators.py", "convert directory"),
    "description": ("tests/python/test_hostile_tokenizers.py", "convert"),
    "explain": ("tests/python/test_explain.py", "convert"),
    "chat-template": ("tests/python/test_chat_trust.py", "convert directory"),
    "weight-file": ("tests/python/test_file.py", "reference"),
}

# What looks like a reader and is none: source or module, and why.
NOT_FOREIGN = {
    "src/cli/encoding/encoder.cpp": "its read() takes a line apart that text.cpp has read",
    "src/cli/commands/rank.cpp": "its query is read as a text is, by encoder.cpp",
    "src/cli/host/ending.cpp": "takes the places of closed standard streams",
    "src/cli/host/machine.cpp": "reads what the system says of this process",
    "src/cli/host/memory.cpp": "maps memory that is no file",
    "tools/phasor/entry.py": "takes the places of closed standard streams",
    "tools/phasor/files.py": "the one way to open a file, by which the readers do",
    "tools/phasor/smoothing.py": "a scratch file of its own",
    "tools/phasor/auto_type.py": "a scratch file of its own; a text by files.py, as moments has it",
    "tools/phasor/plot.py": "arrays that the phasor program has just written",
    "tools/phasor/int8_inputs.py": "a scratch file; an array that the phasor program has written",
    "tools/phasor/verify.py": "arrays that the phasor program has just written",
    "tools/phasor/format/checksum.py": "sums bytes, whatever they are",
    "tools/phasor/format/record.py": "sums bytes of the files that the readers have read",
    "tools/phasor/format/writer.py": "the head of the file that it has written",
    "tools/phasor/replay.py": "what the phasor program has just said",
    "tools/phasor/vectors.py": "bits of a hash; a section of a file that format/file.py checks",
    "tools/phasor/runtime/weights.py": "maps a file that the library checks: targets open, run",
    "tools/phasor/values.py": "constants of the package",
    "tools/phasor/serve/__main__.py": "a key of the user's own",
    "tools/phasor/serve/wanted.py": "requests: hostile ones and drawn ones in test_serve.py",
}

# Front doors whose files and outputs no command of the faults has, and why.
NO_FAULTS = {
    "phasor.verify": "writes nothing; its readers are those of convert",
    "phasor.serve.__main__": "writes nothing; needs packages that make test has not",
    "phasor.plot": "needs matplotlib, which the environment of make test has not",
}
