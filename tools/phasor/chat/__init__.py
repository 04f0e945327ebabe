"""Chat templates (Jinja) to programs of the chat machine (docs/chat.md)."""
