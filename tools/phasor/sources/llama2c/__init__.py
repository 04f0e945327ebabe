"""Files of llama2.c."""
