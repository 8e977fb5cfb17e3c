"""A hub of one process: the few answers that the hub library asks for."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _handler(
    files: Mapping[str, bytes], status: int, error_code: str, gated: frozenset[str]
) -> type:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def log_message(self, *args: object) -> None:
            """Tests print nothing."""

        def _answer(self, *, body: bool) -> None:
            name = self.path.partition("/resolve/main/")[2]
            content = files.get(name)
            if name in gated:
                self._refuse(403, "GatedRepo")
            elif status != 200:
                self._refuse(status, error_code)
            elif content is None:
                self._refuse(404, "EntryNotFound")
            else:
                self._give(content, body=body)

        def _refuse(self, code: int, words: str) -> None:
            self.send_response(code)
            if words:
                self.send_header("X-Error-Code", words)
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _give(self, content: bytes, *, body: bool) -> None:
            self.send_response(200)
            self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

    return Handler


@contextmanager
def hub(
    files: Mapping[str, bytes],
    *,
    status: int = 200,
    error_code: str = "",
    gated: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """A hub with one repository's files, some of them gated; yields its endpoint."""
    handler = _handler(files, status, error_code, gated)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
