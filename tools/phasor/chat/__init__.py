"""Chat templates (Jinja) to programs of the chat machine (docs/reference/chat-templates.md)."""
