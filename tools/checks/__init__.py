"""The checks of `tools/check.py`. Each is a function check_NAME of the module of its subject; its
docstring is its line of `tools/check.py --help`. It takes the command's arguments, returns what it
has seen, and raises a Problem that says what is wrong."""
