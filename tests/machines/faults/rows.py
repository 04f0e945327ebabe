"""The tables of the campaign: which commands run, and how each class of system calls fails.

Literals only: other programs read them without running anything. A command is a line of words, in
which {in} is the folder of inputs (inputs.py), {out} that of outputs and {bin} that of the phasor
program. `outputs` are there before it, with other bytes. What is not said is empty or 0.
"""

COMMANDS = {
    "run": {"words": "phasor run {in}/lm.phasor --ids 5,6,7 -n 5"},
    "run text": {"words": "phasor run {in}/translator.phasor source5 --quiet -n 5 --load copy"},
    "run lines": {
        "words": "phasor run {in}/translator.phasor --quiet -n 5 --load map",
        "stdin": "source5\nsource6 source7\n\nsource8\n",
    },
    "run arrays": {
        "words": "phasor run {in}/translator.phasor source5 --quiet -n 5 --logits {out}/l.npy "
        "--hidden {out}/h.npy --hidden-decoder {out}/d.npy --attention {out}/a.npy",
        "outputs": ("l.npy", "h.npy", "d.npy", "a.npy"),
    },
    "run save": {
        "words": "phasor run {in}/lm.phasor --ids 5,6 -n 5 --quiet --save-state {out}/state",
        "outputs": ("state",),
    },
    "run load": {"words": "phasor run {in}/lm.phasor --ids 9 -n 5 --load-state {in}/state --json"},
    "run beams": {"words": "phasor run {in}/translator.phasor source5 --beam 3 --json -n 5"},
    "run shortlist": {
        "words": "phasor run {in}/translator.phasor source5 --quiet -n 5 --shortlist {in}/vmap",
    },
    "run threads": {
        "words": "phasor run {in}/translator.phasor source5 --threads 2 --quiet -n 5",
    },
    "run states": {
        "words": "phasor run {in}/translator.phasor --embeddings {in}/states.npy --quiet -n 5",
    },
    "run two lines": {  # an error after the parts of the outputs are made
        "words": "phasor run {in}/translator.phasor --quiet --logits {out}/l.npy",
        "stdin": "source5\nsource6\n",
        "outputs": ("l.npy",),
        "status": 2,
    },
    "run bad line": {
        "words": "phasor run {in}/translator.phasor --ids 99999 --quiet",
        "status": 1,
    },
    "embed": {
        "words": "phasor embed {in}/encoder.phasor --ids - --pooling mean --quiet",
        "stdin": "5,6\n7\n",
    },
    "embed npy": {
        "words": "phasor embed {in}/encoder.phasor --ids 5,6 --pooling mean --quiet "
        "--npy {out}/e.npy --hidden {out}/h.npy",
        "outputs": ("e.npy", "h.npy"),
    },
    "fill": {"words": "phasor fill {in}/encoder.phasor --ids 5,4,6 --quiet"},
    "classify": {"words": "phasor classify {in}/classes.phasor --ids 5,6 --quiet --json"},
    "rank": {
        "words": "phasor rank {in}/ranker.phasor 'word1 word2' --quiet",
        "stdin": "word3\nword4 word5\n",
    },
    "rank late": {
        "words": "phasor rank {in}/late.phasor --late 'word1 word2' --quiet --json",
        "stdin": "word3\nword4 word5\n",
    },
    "tag": {"words": "phasor tag {in}/spans.phasor --quiet", "stdin": "word3\nword4 word5\n"},
    "answer": {
        "words": "phasor answer {in}/spans.phasor 'word1 word2' --quiet --json",
        "stdin": "word3\nword4 word5\n",
    },
    "score": {"words": "phasor score {in}/lm.phasor --ids 4,5,6 --quiet"},
    "chat": {
        "words": "phasor chat {in}/chat.phasor --greedy -n 4",
        "stdin": "hello\n",
    },
    "tokenize": {"words": "phasor tokenize {in}/chat.phasor", "stdin": "hello there\n"},
    "inspect": {"words": "phasor inspect {in}/translator.phasor"},
    "verify": {"words": "phasor verify {in}/lm.phasor"},
    "verify json": {"words": "phasor verify {in}/translator.phasor --json"},
    "bench": {
        "words": "phasor bench {in}/lm.phasor --reps 1 -n 2 --json",
        "measured": True,
        "processes": True,
        "share": 24,  # takes a gigabyte, and seconds
    },
    "quantize": {
        "words": "phasor quantize {in}/lm.phasor {out}/q --type q8",
        "outputs": ("q",),
    },
    "quantize moments": {
        "words": "phasor quantize {in}/lm.phasor {out}/q --type q4 --quiet "
        "--moments {in}/moments.npy",
        "outputs": ("q",),
    },
    "quantize bytes": {
        "words": "phasor quantize {in}/chat.phasor {out}/q --bytes 100K --text {in}/words.txt",
        "outputs": ("q",),
        "share": 4,
    },
    "quantize new": {"words": "phasor quantize {in}/lm.phasor {out}/new --type bf16 --quiet"},
    "quantize small": {
        "words": "phasor quantize {in}/small.phasor {out}/q --type q8",
        "outputs": ("q",),
    },
    "quantize large": {
        "words": "phasor quantize {in}/large.phasor {out}/q --type q4 --quiet",
        "outputs": ("q",),
        "calls": False,
    },
    "quantize over": {  # an output that is the input
        "words": "phasor quantize {in}/lm.phasor {in}/lm.phasor --type q8",
        "status": 1,
    },
    "help": {"words": "phasor --help", "streams": True},
    "version": {"words": "phasor --version", "streams": True},
    "convert": {
        "words": "python phasor.convert {in}/separate.pt -o {out}/m --phasor {bin}/phasor",
        "outputs": ("m",),
        "reads": ("torch_file zip", "description"),
    },
    "convert legacy": {
        "words": "python phasor.convert {in}/legacy.pt -o {out}/m --quiet --type q8 "
        "--phasor {bin}/phasor --describe {in}/separate.toml --tokenizer {in}/words.txt",
        "outputs": ("m",),
        "reads": ("torch_file legacy", "word list"),
    },
    "convert safetensors": {
        "words": "python phasor.convert {in}/separate.safetensors -o {out}/m --quiet "
        "--type q8 --no-smooth --phasor {bin}/phasor --describe {in}/separate.toml",
        "outputs": ("m",),
        "reads": ("safetensors",),
    },
    "convert directory": {
        "words": "python phasor.convert {in}/llama -o {out}/m --quiet --phasor {bin}/phasor "
        "--lora {in}/adapter --report {out}/r",
        "outputs": ("m", "r"),
        "reads": ("config.json", "tokenizer.json", "safetensors", "chat template", "adapter"),
    },
    "convert gguf": {
        "words": "python phasor.convert {in}/m.gguf -o {out}/m --phasor {bin}/phasor "
        "--tokenizer {in}/words.txt",
        "outputs": ("m",),
        "reads": ("gguf", "word list"),
    },
    "convert llama2c": {
        "words": "python phasor.convert {in}/llama2c.bin -o {out}/m --quiet --type q8 "
        "--phasor {bin}/phasor --moments {in}/llama2c.npy --tokenizer {in}/tokenizer.bin",
        "outputs": ("m",),
        "reads": ("llama2c", "moments", "llama2c tokenizer"),
    },
    "convert expect": {
        "words": "python phasor.convert {in}/llama2c.bin -o {out}/m --quiet --phasor {bin}/phasor "
        "--expect {in}/expect.npz",
        "outputs": ("m",),
        "reads": ("llama2c", "expect"),
    },
    "convert ctranslate2": {
        "words": "python phasor.convert {in}/ct2 -o {out}/m --quiet --phasor {bin}/phasor",
        "outputs": ("m",),
        "reads": ("ctranslate2", "word list", "config.json"),
    },
    "convert marian": {
        "words": "python phasor.convert {in}/marian.npz -o {out}/m --quiet --phasor {bin}/phasor "
        "--tokenizer {in}/opus/source.spm",
        "outputs": ("m",),
        "reads": ("marian", "vocab.yml", "sentencepiece"),
    },
    "convert tekken": {
        "words": "python phasor.convert {in}/llama2c.bin -o {out}/m --quiet --phasor {bin}/phasor "
        "--tokenizer {in}/tekken.json",
        "outputs": ("m",),
        "reads": ("llama2c", "tekken"),
    },
    "convert fairseq": {
        "words": "python phasor.convert {in}/llama2c.bin -o {out}/m --quiet --phasor {bin}/phasor "
        "--tokenizer {in}/dict.txt",
        "outputs": ("m",),
        "reads": ("llama2c", "dictionary"),
    },
    "convert characters": {
        "words": "python phasor.convert {in}/llama2c.bin -o {out}/m --quiet --phasor {bin}/phasor "
        "--tokenizer {in}/chars.txt",
        "outputs": ("m",),
        "reads": ("llama2c", "characters"),
    },
    "convert calibration": {
        "words": "python phasor.convert {in}/llama -o {out}/m --quiet --phasor {bin}/phasor "
        "--type q8r-auto --calibration {in}/text.txt",
        "outputs": ("m",),
        "reads": ("config.json", "tokenizer.json", "safetensors", "text"),
    },
    "convert over": {
        "words": "python phasor.convert {in}/separate.pt -o {in}/separate.pt",
        "status": 1,
    },
    "convert over directory": {
        "words": "python phasor.convert {in}/llama -o {in}/link",
        "status": 1,
    },
    "moments": {
        "words": "python phasor.moments {in}/chat.phasor {in}/text.txt -o {out}/m.npy "
        "--tokens 16 --phasor {bin}/phasor",
        "outputs": ("m.npy",),
        "reads": ("phasor file", "text"),
    },
    "reference": {
        "words": "python phasor.reference.forward {in}/lm.phasor --target-ids 5,6",
        "reads": ("phasor file",),
    },
    "beam": {
        "words": "python phasor.reference.beam {in}/translator.phasor --source-ids 5,6 "
        "--beam 2 -n 3",
        "reads": ("phasor file",),
    },
}

# How a class fails (inject.c has the calls of each class): KIND=VALUE, and + where all from that
# one on fail.
FAULTS = {
    "open": (
        "error=EIO", "error=EACCES", "error=EMFILE", "error=EMFILE+",
        "error=ENOMEM", "error=ENOSPC", "error=EINTR",
    ),
    "read": (
        "error=EIO", "error=EIO+", "error=EAGAIN", "error=EINTR", "short=1", "short=1+", "half=0",
        "end=0",
    ),
    "write": (
        "error=EIO", "error=ENOSPC", "error=ENOSPC+", "error=EDQUOT", "error=EPIPE",
        "error=EAGAIN", "error=EINTR", "short=1", "short=1+", "half=0",
    ),
    "mmap": ("error=ENOMEM", "error=ENOMEM+", "error=EACCES", "error=ENODEV", "error=EAGAIN"),
    "memory": ("error=ENOMEM", "error=ENOMEM+"),
    "unmap": ("error=ENOMEM", "error=EINVAL"),
    "fsync": ("error=EIO", "error=ENOSPC", "error=EINVAL", "error=EINTR", "late=EIO"),
    "close": ("late=EIO", "late=ENOSPC", "late=EDQUOT", "late=EINTR"),
    "rename": (
        "error=EIO", "error=ENOSPC", "error=EACCES", "error=EXDEV", "error=EROFS", "late=EIO",
    ),
    "truncate": ("error=EIO", "error=ENOSPC", "error=EINTR"),
    "unlink": ("error=EIO", "error=EACCES", "late=EIO"),
    "stat": ("error=EIO", "error=EACCES", "error=ENOMEM"),
    "seek": ("error=EIO", "error=EINVAL", "error=ESPIPE"),
    "mode": ("error=EPERM", "error=EIO"),
    "process": ("error=EAGAIN", "error=ENOMEM", "error=EMFILE", "error=EACCES"),
}  # fmt: skip

# A reader and a writer go on after these, and the result is what it is without them.
GOES_ON = {
    "read": ("error=EINTR", "short=1", "short=1+", "half=0"),
    "write": ("error=EINTR", "short=1", "short=1+", "half=0"),
}

# What is no fault of the system: the end of standard input; a read of a file that would have to
# wait; memory of Python's own packages that cannot be given back (OpenBLAS prints that).
NO_FAULTS = {
    "stdin": ("end=0",),
    "file": ("error=EAGAIN",),
    "python": ("unmap",),
}

# Without any more memory CPython and numpy may die as if they were killed: outputs are old or new,
# and a part may stay.
LIKE_KILLED = {"python": ("error=ENOMEM+",)}

# Commands that get room for a number of bytes of their outputs: each number, or each N-th; and
# those that are stopped at so many random moments.
ROOM = {
    "quantize small": 1,
    "run": 1,
    "run save": 1,
    "score": 1,
    "convert": 379,
}
STOPS = {"quantize large": 300, "run arrays": 100, "convert": 200, "convert legacy": 100}

# At every call of every class.
SIGNALS = ("signal=SIGINT", "signal=SIGTERM", "signal=SIGKILL")
