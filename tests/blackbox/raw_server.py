"""A loopback server that does to each connection whatever a function says: for answers that no HTTP
library would give."""

import socket
import threading


class RawServer:
    """`act(connection, request_bytes)` runs on a thread per connection; `requests` are all heads."""

    def __init__(self, act):
        self.act = act
        self.requests = []
        self.done = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def _accept(self):
        while not self.done.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    piece = connection.recv(65536)
                    if not piece:
                        break
                    head += piece
                self.requests.append(head)
                self.act(connection, head)
            except OSError:
                pass  # the client has hung up

    @property
    def url(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"
