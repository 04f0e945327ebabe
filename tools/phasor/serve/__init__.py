"""A server for one weight file: chat, completions and embeddings of the common API over HTTP.

    python -m phasor.serve model.phasor --port 8080

Needs Starlette and uvicorn, the extra `server` of the distribution. `engine` computes, `wanted`
reads what a request asks for, `api` speaks HTTP."""
