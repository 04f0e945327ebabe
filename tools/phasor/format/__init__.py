"""The weight file (docs/format.md): layout, descriptor, the table of tensors, reader and writer."""
