"""A relay between the processes of a cluster: it passes bytes on, and cuts connections on demand.

    with Relay(lambda: address_of_the_server) as relay:   # relay.address is what others are told
        relay.cut()                                       # every connection, at once
        relay.recorded                                    # what clients sent, per connection
"""

import selectors
import socket
import struct
import threading

PIECE = 1 << 16


def split(address):
    """("127.0.0.1", 4711) of "127.0.0.1:4711"."""
    host, port = address.rsplit(":", 1)
    return host, int(port)


class Relay:
    """Listens on a free port of this host, and connects each client to `target`."""

    def __init__(self, target, keep=0):
        self.target = target
        self.keep = keep
        self.recorded = []  # the first `keep` bytes of each client, in the order they came
        self.cuts = 0  # connections that were really cut
        self.accepted = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.ours, self.theirs = socket.socketpair()  # wakes the thread
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.theirs, selectors.EVENT_READ)
        self.peers = {}  # socket: (the other one, list to record in or None)
        self.answer = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.ours.send(b"q")
        self.thread.join(10)

    def cut(self):
        """Cuts every connection; returns how many there were."""
        before = self.cuts
        self.answer.clear()
        self.ours.send(b"c")
        self.answer.wait(10)
        return self.cuts - before

    def _drop(self, end):
        other, _ = self.peers.pop(end)
        self.peers.pop(other)
        for one in (end, other):
            self.selector.unregister(one)
            # A reset, as from a peer that is gone: nothing more is delivered.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()

    def _accept(self):
        client, _ = self.listener.accept()
        self.accepted += 1
        try:
            server = socket.create_connection(split(self.target()), timeout=5)
        except OSError:
            client.close()
            return
        record = [] if self.keep else None
        if self.keep:
            self.recorded.append(record)
        for one, other, recorder in ((client, server, record), (server, client, None)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.peers[one] = (other, recorder)
            self.selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, end):
        try:
            piece = end.recv(PIECE)
            other, record = self.peers[end]
            if record is not None and sum(map(len, record)) < self.keep:
                record.append(piece)
            if piece:
                other.sendall(piece)
                return
        except OSError:
            pass
        self._drop(end)

    def _run(self):
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.theirs:
                    word = self.theirs.recv(1)
                    for end in list(self.peers):
                        if end in self.peers:
                            self.cuts += word == b"c"
                            self._drop(end)
                    if word == b"q":
                        self.listener.close()
                        return
                    self.answer.set()
                elif key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj in self.peers:
                    self._pass_on(key.fileobj)
