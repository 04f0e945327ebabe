"""The forward pass of any descriptor in float64, from the papers, and the same models in
PyTorch."""
