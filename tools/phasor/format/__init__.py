"""The weight file (file-format.md): layout, descriptor, the table of tensors, reader and writer."""
