"""A real HTTP server on loopback that speaks the chat-completions protocol and misbehaves on request.

A test hands it a function from the request's JSON body (and the number of the request) to a `Reply`; the bytes go over
a socket, so what is tested is the client and its library, not a stand-in for them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CUT = object()
HANG = object()


@dataclass
class Reply:
    """What to send: `events` are JSON objects, raw strings, CUT (close the socket) or HANG (say nothing more)."""

    events: list[Any] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None


def chunk(content: str = "", *, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    """One event of a streamed answer."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": content, **delta}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}


def usage(prompt: int, completion: int) -> dict[str, Any]:
    """The last event of a streamed answer, when usage was asked for."""
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [], "usage": counts}


def answer(text: str, *, finish: str = "stop", prompt: int = 10, completion: int = 5) -> Reply:
    """A whole, sound answer in three events."""
    half = len(text) // 2
    return Reply([chunk(text[:half]), chunk(text[half:]), chunk(finish=finish), usage(prompt, completion)])


def refusal(status: int, message: str, *, headers: dict[str, str] | None = None, code: str | None = None) -> Reply:
    """An error in the protocol's form."""
    return Reply(status=status, headers=headers or {}, body=json.dumps({"error": {"message": message, "code": code}}))


class Endpoint:
    """A context manager that serves `script` and keeps what was asked."""

    def __init__(self, script: Callable[[dict[str, Any], int], Reply], models: tuple[str, ...] = ("m",)):
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self._release = threading.Event()
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None: ...

            def do_GET(self) -> None:
                data = [{"id": name, "object": "model", "created": 0, "owned_by": "test"} for name in models]
                self._send(200, json.dumps({"object": "list", "data": data}), {})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with owner._lock:
                    owner.requests.append(body)
                    owner.keys.append(self.headers.get("Authorization"))
                    number = len(owner.requests)
                reply = script(body, number)
                if reply.body is not None:
                    return self._send(reply.status, reply.body, reply.headers)
                self._stream(reply)

            def _send(self, status: int, body: str, headers: dict[str, str]) -> None:
                raw = body.encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def _stream(self, reply: Reply) -> None:
                self.send_response(reply.status)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for event in reply.events:
                    if event is HANG:
                        owner._release.wait(60)
                    if event is CUT or event is HANG:
                        self.close_connection = True
                        return
                    self._chunk(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
                self._chunk("data: [DONE]\n\n")
                self.wfile.write(b"0\r\n\r\n")

            def _chunk(self, text: str) -> None:
                raw = text.encode()
                self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
                self.wfile.flush()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Endpoint:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
