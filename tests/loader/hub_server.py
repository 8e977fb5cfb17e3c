"""A hub of one process: the few answers that the hub library asks for."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def _handler(files: Mapping[str, bytes], status: int, error_code: str) -> type:
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
            if status != 200 or content is None:
                self.send_response(status if status != 200 else 404)
                code = error_code if status != 200 else "EntryNotFound"
                self.send_header("X-Error-Code", code)
                self.send_header("X-Repo-Commit", COMMIT)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if body:
                self.wfile.write(content)

    return Handler


@contextmanager
def hub(files: Mapping[str, bytes], *, status: int = 200, error_code: str = "") -> Iterator[str]:
    """A hub with one repository's files; yields its endpoint."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(files, status, error_code))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
