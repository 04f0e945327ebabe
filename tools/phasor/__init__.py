"""Phasor's Python side: checkpoints and weight files. `python -m phasor.convert`, `.verify`,
`.plot`; docs/convert.md.

Rooms, each of which imports only those above it:

    errors, scratch, files, values, entry, positions    what all share: one way to say an error,
                                                        one way to write a file
    format        the weight file: layout, descriptor, tensors, reader and writer
    tokenizers    vocabularies and merges, from SentencePiece and tokenizer.json
    chat          chat templates to programs
    reference     the forward pass in float64 and in PyTorch
    checkpoints   files of PyTorch, safetensors and NumPy
    families      a checkpoint of somebody's library to a model
    sources       a folder for each kind of source: container, names, tokenizer
    program, vectors, smoothing, moments       the phasor program, run; what a file is made with
    convert       a checkpoint to a file
    verify, plot  what looks at a file
"""
