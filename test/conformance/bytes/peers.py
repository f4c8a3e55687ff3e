"""Both ends of many bodies: the clients of gateways and the upstream behind them, in one process, so that each end knows
what the other one has sent. Node cannot make the receive buffer of a socket smaller; here it is 64 KiB, and what the reader
does not take soon waits in the gateway. The argument is a JSON object (see run.ts). Prints a line for each body that was
wrong, and at last the figures."""

import json
import random
import re
import select
import socket
import ssl
import struct
import sys
import threading
import time

BUFFER_BYTES = 64 * 1024
MIB = 1024 * 1024
LARGE_BYTES = 12 * MIB


def most_of(setting):
    with open(f"/proc/sys/net/ipv4/{setting}", encoding="ascii") as file:
        return int(file.read().split()[2])


# The buffers of the system hold less: the gateway's for sending and for receiving, and those that this program bounds.
STALLED_BYTES = max(LARGE_BYTES, most_of("tcp_rmem") + most_of("tcp_wmem") + 2 * MIB)
# Without a byte in either direction.
DEADLINE_SECONDS = 30
POOL = random.Random(1).randbytes(STALLED_BYTES + 32 * MIB)


class Broken(Exception):
    """This end breaks the body off. The argument says how."""


class Sink:
    """Compares what arrives with what was sent."""

    def __init__(self, content, pace, abort):
        self.content, self.pace, self.abort = content, pace, abort
        self.at = 0
        self.is_ended = False
        self.fault = None

    def take(self, data):
        expected = self.content[self.at : self.at + len(data)]
        if expected != data and self.fault is None:
            first = next((i for i, pair in enumerate(zip(expected, data)) if pair[0] != pair[1]), len(expected))
            self.fault = f"other bytes were sent behind byte {self.at + first}"
        self.at += len(data)
        if self.abort is not None and self.at >= self.abort[1]:
            raise Broken(self.abort[0])

    def end(self):
        if self.is_ended or self.at != len(self.content):
            self.fault = self.fault or f"it ended as complete behind byte {self.at}"
        self.is_ended = True


class Source:
    """Gives the bytes of a message in pieces. `may_end`: whether the last byte may be sent."""

    def __init__(self, wire, pace, abort, may_end=lambda: True):
        self.wire, self.pace, self.abort, self.may_end = wire, pace, abort, may_end
        self.at = 0
        self.moved_at = time.monotonic()

    @property
    def is_over(self):
        return self.at == len(self.wire)

    def next(self, room=1 << 30):
        if self.abort is not None and self.at >= self.abort[1]:
            raise Broken(self.abort[0])
        room = min(room, self.pace.room(self.at), len(self.wire) - self.at)
        if 0 < room == len(self.wire) - self.at and not self.may_end():
            room -= 1
        if room <= 0:
            return b""
        self.at += room
        self.moved_at = time.monotonic()
        return self.wire[self.at - room : self.at]


class Pace:
    """How many bytes one end moves at a time, and when it pauses."""

    def __init__(self, draw, kind):
        self.draw, self.kind = draw, kind
        self.until = 0.0
        self.left = 0
        self.stalls_at = draw.randrange(1, MIB) if kind == "stalling" else None
        # For readers: whether the sender has waited for so many seconds, or has sent all.
        self.has_waited = lambda seconds: True

    def room(self, at):
        now = time.monotonic()
        if now < self.until:
            return 0
        if self.stalls_at is not None and at >= self.stalls_at:
            return self.stall(now)
        if self.kind == "odd" and at < 200_000:
            return self.draw.randrange(1, 3000)
        if self.kind == "trickling":
            # So that each piece is read by itself.
            self.until = now + 0.0005
            return self.draw.randrange(1, 8_192)
        if self.kind in ("lagging", "stalling"):
            return self.lag(now)
        if self.kind == "pausing":
            self.left -= 1
            if self.left < 0:
                self.left = self.draw.randrange(16)
                self.until = now + self.draw.random() * 0.004
                return 0
            return self.draw.randrange(1, 131_072)
        return self.draw.choice([65_536, 262_144])

    def stall(self, now):
        """Reads nothing until the sender cannot send any more."""
        if self.has_waited(0.1):
            self.stalls_at = None
        self.until = now + 0.02
        return 0

    def lag(self, now):
        """Reads some bytes each time the sender has to wait: on a machine of any speed, all buffers between them stay full."""
        if self.left <= 0:
            if not self.has_waited(0.03):
                self.until = now + 0.005
                return 0
            self.left = self.draw.randrange(1, 512 * 1024)
        room = min(self.left, self.draw.randrange(1, 65_536))
        self.left -= room
        return room


class Body:
    """One exchange: `up` bytes go to the upstream, `down` bytes come back."""

    def __init__(self, number, draw, is_large, gateway, carrier, may_abort):
        self.number, self.gateway, self.carrier = number, gateway, carrier
        # Its reader stalls until the sender has to wait, which it must.
        must_wait = is_large and draw.random() < 0.25
        self.up, self.down = self.draw_contents(draw, is_large, STALLED_BYTES if must_wait else LARGE_BYTES)
        abort = self.draw_abort(draw) if may_abort and draw.random() < 0.15 else {}
        self.is_aborted = bool(abort)
        reading, writing = self.draw_kinds(draw, is_large, must_wait)
        paces = [Pace(draw, draw.choice(reading)) for _ in range(2)]
        self.up_sink = Sink(self.up, paces[0], abort.get("up_sink"))
        self.down_sink = Sink(self.down, paces[1], abort.get("down_sink"))
        self.is_up_chunked = draw.random() < 0.5
        self.down_framing = draw.choice(["length", "chunked", "chunked", "close"])
        paces = [Pace(draw, draw.choice(writing)) for _ in range(2)]
        # HTTP/2 has frames of its own, and a tunnel has none.
        is_framed = carrier == "h1"
        up_wire = in_chunks(draw, self.up) if is_framed and self.is_up_chunked else self.up
        down_wire = in_chunks(draw, self.down) if carrier != "ws" and self.down_framing == "chunked" else self.down
        self.up_source = Source(up_wire, paces[0], abort.get("up_source"))
        # An answer that ends before its request would end the request.
        self.down_source = Source(down_wire, paces[1], abort.get("down_source"), lambda: self.up_sink.is_ended)
        if carrier == "ws":
            self.down_source.may_end = lambda: True
        for sink, source in ((self.up_sink, self.up_source), (self.down_sink, self.down_source)):
            sink.pace.has_waited = lambda seconds, sink=sink, source=source: self.has_waited(sink, source, seconds)
        # Most uploads are answered when they are there. Then the client's connection can be used again.
        self.is_answered_early = not self.up or len(self.down) > 2 or draw.random() < 0.3
        # The first bytes of a body come with its head.
        self.joins_heads = draw.random() < 0.5
        self.status = None
        self.fault = None
        self.has_arrived = False
        self.is_end_lost = False
        self.upstream_over = threading.Event()

    @staticmethod
    def draw_contents(draw, is_large, least):
        def content(size):
            at = draw.randrange(len(POOL) - size)
            return POOL[at : at + size]

        def size():
            return int(2 ** (draw.random() * 22))

        up, down = draw.choice([(size(), 2), (0, size()), (size(), size())])
        if is_large:
            large = draw.randrange(least + 1, least + 8 * MIB)
            is_up = up > 0 and (down == 2 or draw.random() < 0.5)
            up, down = (large, down) if is_up else (up, large)
        return content(up), content(down)

    @staticmethod
    def draw_kinds(draw, is_large, must_wait):
        reading = ["stalling"] if must_wait else ["fast", "pausing", "lagging", "lagging", "odd", "stalling"]
        writing = ["fast", "fast", "fast", "pausing", "trickling"] if is_large else ["fast", "pausing", "odd", "trickling"]
        return reading, writing

    def draw_abort(self, draw):
        where = draw.choice(["up_source", "up_sink"] if len(self.up) > len(self.down) else ["down_source", "down_sink"])
        return {where: (draw.choice(["reset", "close"]), draw.randrange(1 + max(len(self.up), len(self.down))))}

    def has_waited(self, sink, source, seconds):
        if source.is_over and sink.at < MIB and len(sink.content) >= STALLED_BYTES:
            self.fault = self.fault or f"all was taken from the sender while the reader had {sink.at} bytes"
        return source.is_over or time.monotonic() - source.moved_at > seconds

    def judge(self):
        fault = self.fault or self.up_sink.fault or self.down_sink.fault
        if fault is not None or self.is_aborted:
            return fault
        if self.status != 200:
            return f"the answer has the status {self.status}"
        if not self.up_sink.is_ended:
            return f"the upload did not end: {self.up_sink.at} of {len(self.up)} bytes"
        if not self.down_sink.is_ended:
            return f"the answer did not end: {self.down_sink.at} of {len(self.down)} bytes"
        return None


class Upload(Body):
    """Large, from a fast client to an upstream that reads on when all buffers before it are full."""

    @staticmethod
    def draw_contents(draw, is_large, least):
        at = draw.randrange(8 * MIB)
        return POOL[at : at + 2 * LARGE_BYTES], b"ok"

    @staticmethod
    def draw_kinds(draw, is_large, must_wait):
        return ["lagging"], ["fast"]


def in_chunks(draw, content):
    parts, at = [], 0
    while at < len(content):
        size = draw.choice([draw.randrange(1, 70_000), 16_384, draw.randrange(1, 2_000)])
        piece = content[at : at + size]
        parts += [b"%x\r\n" % len(piece), piece, b"\r\n"]
        at += size
    return b"".join([*parts, b"0\r\n\r\n"])


class Decoder:
    """Gives a sink the body of a message of HTTP/1.1. `length`: -1 in chunks, None until the connection is closed."""

    def __init__(self, length, sink):
        self.sink, self.left, self.is_chunked = sink, length, length == -1
        self.rest = b""
        self.is_over = False
        if length == 0:
            self.end()

    def end(self):
        self.is_over = True
        if self.sink is not None:
            self.sink.end()

    def take(self, data):
        if self.sink is not None:
            self.sink.take(data)

    def feed(self, data):
        if self.is_over:
            self.rest += data
        elif self.is_chunked:
            self.feed_chunks(self.rest + data)
        elif self.left is None:
            self.take(data)
        else:
            piece, self.rest = data[: self.left], data[self.left :]
            self.left -= len(piece)
            if piece:
                self.take(piece)
            if self.left == 0:
                self.end()

    def feed_chunks(self, data):
        # `left` counts the line end behind a chunk; -1: the line of the next one is expected.
        at = 0
        while at < len(data) and not self.is_over:
            if self.left > 2:
                piece = data[at : at + self.left - 2]
                self.take(piece)
                self.left -= len(piece)
                at += len(piece)
                continue
            if self.left > 0:
                skipped = min(self.left, len(data) - at)
                at += skipped
                self.left = self.left - skipped or -1
                continue
            end = data.find(b"\r\n", at)
            if end == -1:
                break
            size = int(data[at:end].split(b";")[0] or b"0", 16) if data[at:end] else None
            at = end + 2
            if size is None:
                self.end()
            elif size > 0:
                self.left = size + 2
        self.rest = data[at:]

    def closed(self):
        if self.left is None and not self.is_over:
            self.end()


class Connection:
    """A socket that neither reading nor writing blocks."""

    def __init__(self, sock):
        sock.setblocking(False)
        self.sock = sock
        self.out = b""
        self.since = time.monotonic()

    def push(self, data):
        self.out = data
        self.flush()

    def flush(self):
        while self.out:
            try:
                self.out = self.out[self.sock.send(self.out) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return

    def read(self, room):
        """None: nothing has come. Empty: the other side has ended."""
        try:
            return self.sock.recv(room)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except ssl.SSLEOFError:
            raise ConnectionResetError("without a close_notify") from None

    def wait(self, reads, until):
        now = time.monotonic()
        if now - self.since > DEADLINE_SECONDS:
            raise TimeoutError(f"nothing has moved for {DEADLINE_SECONDS} s")
        if reads and isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return
        select.select([self.sock] if reads else [], [self.sock] if self.out else [], [], max(0, min(until - now, 0.05)))

    def reset(self):
        tcp = self.sock
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        tcp.close()

    def close(self):
        if isinstance(self.sock, ssl.SSLSocket):
            try:
                self.sock.unwrap()
            except (OSError, ValueError):
                pass
        self.sock.close()


def pump(connection, source, decoder, is_over):
    """Writes a message and reads another one at the same time."""
    while not is_over():
        has_moved = False
        if not connection.out:
            piece = source.next()
            if piece:
                connection.push(piece)
                has_moved = True
        else:
            connection.flush()
        sink = decoder.sink
        room = 65_536 if sink is None or decoder.is_over else sink.pace.room(sink.at)
        if room > 0:
            data = connection.read(room)
            if data == b"":
                decoder.closed()
                if not is_over():
                    raise ConnectionResetError("closed early")
            elif data is not None:
                decoder.feed(data)
                has_moved = True
        if has_moved:
            connection.since = time.monotonic()
        elif not is_over():
            now = time.monotonic()
            untils = [source.pace.until, 0 if sink is None else sink.pace.until, now + 0.05]
            connection.wait(room > 0, min(until for until in untils if until > now))


def read_head(connection, rest):
    """Returns the lines of a head and what came behind it; None if there is none."""
    connection.since = time.monotonic()
    while b"\r\n\r\n" not in rest:
        data = connection.read(65_536)
        if data == b"":
            return None
        if data is None:
            connection.wait(True, time.monotonic() + 1)
        else:
            rest += data
    head, rest = rest.split(b"\r\n\r\n", 1)
    return head.decode("latin1"), rest


def length_of(head):
    """-1: in chunks; None: not said."""
    if re.search(r"^transfer-encoding: *chunked", head, re.M | re.I):
        return -1
    found = re.search(r"^content-length: *(\d+)", head, re.M | re.I)
    return None if found is None else int(found[1])


class Upstream:
    def __init__(self, port, tls, bodies):
        self.tls, self.bodies = tls, bodies
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets have the buffer that their listener had before it listened.
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self.listener.bind(("127.0.0.1", port))
        self.listener.listen(256)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            sock, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        body = None
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
            if self.tls is not None:
                sock.settimeout(10)
                sock = self.tls.wrap_socket(sock, server_side=True)
            connection = Connection(sock)
            rest = b""
            while (read := read_head(connection, rest)) is not None:
                body = self.bodies[int(re.search(r"/b/(\d+)", read[0])[1])]
                is_repeated = body.has_arrived
                body.has_arrived = True
                # A request without a body may come again, if its connection broke before its answer. A body must not.
                sink = None if is_repeated and not body.up else body.up_sink
                rest = self.answer(connection, body, sink, *read)
                body.upstream_over.set()
                if rest is None:
                    return
                body = None
            connection.close()
        except Broken as broken:
            # Without TLS a close can be the end of an answer. With it, only one that is announced by a close_notify.
            is_end = body.down_framing == "close" and self.tls is None
            connection.reset() if broken.args[0] == "reset" or is_end else connection.sock.close()
        except (OSError, TimeoutError) as error:
            if body is not None and not body.is_aborted:
                body.fault = body.fault or f"at the upstream: {error!r}"
            sock.close()
        finally:
            if body is not None:
                body.upstream_over.set()

    def answer(self, connection, body, sink, head, rest):
        """Returns what came behind the request; None if it was the last one."""
        source = body.down_source
        if re.search(r"^upgrade:", head, re.M | re.I):
            connection.push(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            tunnel(connection, source, sink, rest)
            return None
        length = length_of(head)
        decoder = Decoder(length or 0, sink)
        framing = {
            "length": b"Content-Length: %d\r\n" % len(body.down),
            "chunked": b"Transfer-Encoding: chunked\r\n",
            "close": b"Connection: close\r\n",
        }[body.down_framing]
        if rest:
            decoder.feed(rest)
        if not body.is_answered_early:
            pump(connection, Source(b"", source.pace, None), decoder, lambda: decoder.is_over)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n" + framing + b"\r\n"
        connection.push(head + (source.next() if body.joins_heads else b""))
        pump(connection, source, decoder, lambda: decoder.is_over and source.is_over and not connection.out)
        if body.down_framing == "close":
            connection.close()
            return None
        return decoder.rest


def tunnel(connection, source, sink, rest):
    """Writes and reads bytes without a framing, until each side has all."""
    decoder = Decoder(len(sink.content), sink)
    if rest:
        decoder.feed(rest)
    pump(connection, source, decoder, lambda: decoder.is_over and source.is_over and not connection.out)
    # The other side may still be reading, and closes.
    connection.since = time.monotonic()
    while (data := connection.read(65_536)) != b"":
        if data is None:
            connection.wait(True, time.monotonic() + 1)
        else:
            raise ConnectionResetError("more came than was sent")
    connection.close()


class Client:
    """Sends some bodies over one connection."""

    def __init__(self, draw, gateway, bodies, ca):
        self.draw, self.gateway, self.bodies, self.ca = draw, gateway, bodies, ca
        self.connection = None

    def run(self):
        if self.bodies[0].carrier == "h2":
            self.run_part(self.bodies, lambda connection: Http2(self.draw, connection, self.bodies).run())
            return
        for body in self.bodies:
            self.run_part([body], lambda connection, body=body: self.exchange(connection, body))

    def run_part(self, bodies, part):
        """The next part has the same connection, unless this one has broken it off."""
        connection = None
        try:
            connection = self.connection or self.connect()
            self.connection = None
            if part(connection):
                self.connection = connection
            else:
                connection.close()
        except Broken as broken:
            connection.reset() if broken.args[0] == "reset" else connection.close()
        except (OSError, TimeoutError) as error:
            if connection is not None:
                connection.sock.close()
            for body in bodies:
                if not body.is_aborted and not body.down_sink.is_ended:
                    body.fault = body.fault or f"at the client: {error!r}"

    def connect(self):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(10)
        sock.connect(("127.0.0.1", self.gateway["port"]))
        if self.gateway["tls"]:
            context = ssl.create_default_context(cafile=self.ca)
            context.set_alpn_protocols(["h2"] if self.bodies[0].carrier == "h2" else ["http/1.1"])
            sock = context.wrap_socket(sock, server_hostname="localhost")
        return Connection(sock)

    def exchange(self, connection, body):
        """Returns whether the connection can be used again. The answer may come while the request is sent."""
        connection.since = time.monotonic()
        fields = b"Host: localhost\r\nAuthorization: Bearer t\r\n"
        if body.carrier == "ws":
            fields += b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            fields += b"Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
        elif body.is_up_chunked and body.up:
            fields += b"Transfer-Encoding: chunked\r\n"
        elif body.up:
            fields += b"Content-Length: %d\r\n" % len(body.up)
        method = b"POST" if body.up and body.carrier != "ws" else b"GET"
        head = b"%s /v2/b/%d HTTP/1.1\r\n%s\r\n" % (method, body.number, fields)
        source = Source(b"", body.up_source.pace, None) if not body.up else body.up_source
        if body.joins_heads and body.carrier == "h1":
            head += source.next()
        connection.push(head)
        if body.carrier == "ws":
            self.upgrade(connection, body)
            return False
        response = Response(body)
        pump(connection, source, response, lambda: response.is_over and source.is_over and not connection.out)
        return not response.is_last

    def upgrade(self, connection, body):
        read = read_head(connection, b"")
        body.status = None if read is None else int(read[0].split(" ")[1])
        if body.status != 101:
            raise ConnectionResetError("no tunnel")
        body.status = 200
        decoder = Decoder(len(body.down), body.down_sink)
        decoder.feed(read[1])
        source = body.up_source
        pump(connection, source, decoder, lambda: decoder.is_over and source.is_over and not connection.out)
        while not body.up_sink.is_ended and not body.upstream_over.is_set():
            connection.wait(False, time.monotonic() + 0.01)


class Response:
    """Reads the head of an answer and then its body."""

    def __init__(self, body):
        self.body = body
        self.head = b""
        self.is_last = False
        self.decoder = None
        self.sink = body.down_sink

    @property
    def is_over(self):
        return self.decoder is not None and self.decoder.is_over

    def feed(self, data):
        if self.decoder is not None:
            self.decoder.feed(data)
            return
        self.head += data
        if b"\r\n\r\n" not in self.head:
            return
        head, rest = self.head.split(b"\r\n\r\n", 1)
        text = head.decode("latin1")
        self.body.status = int(text.split(" ")[1])
        if self.body.status != 200:
            raise ConnectionAbortedError(f"status {self.body.status}")
        self.is_last = re.search(r"^connection: *close", text, re.M | re.I) is not None
        self.decoder = Decoder(length_of(text), self.sink)
        if rest:
            self.decoder.feed(rest)

    def closed(self):
        if self.decoder is not None:
            self.decoder.closed()


class Stream:
    def __init__(self, number, body, send_window, receive_window):
        self.number, self.body = number, body
        self.send_window, self.receive_window = send_window, receive_window
        self.owed = 0
        self.is_up_ended = not body.up
        self.is_closed = False


class Http2:
    """Frames in odd lengths, padded at random, of several streams at once; windows are opened late and in odd steps."""

    def __init__(self, draw, connection, bodies):
        self.draw, self.connection = draw, connection
        self.unopened = list(bodies)
        self.streams = {}
        self.rest = b""
        self.control = b""
        self.send_window = 65_535
        self.first_window = 65_535
        self.own_window = draw.choice([20_000, 65_535, 1_000_000])
        self.owed = 0
        self.pace = Pace(draw, draw.choice(["fast", "pausing"]))

    def run(self):
        settings = struct.pack(">HIHI", 2, 0, 4, self.own_window)
        self.control = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, settings)
        while self.unopened or any(not stream.is_closed for stream in self.streams.values()):
            if self.unopened and self.draw.random() < 0.2:
                self.open(self.unopened.pop())
            if not self.connection.out:
                self.give_back()
                out = self.control + self.data()
                self.control = b""
                self.connection.push(out)
                has_moved = bool(out)
            else:
                self.connection.flush()
                has_moved = False
            room = self.pace.room(0)
            data = self.connection.read(room) if room > 0 else None
            if data == b"":
                raise ConnectionResetError("closed early")
            if data is not None:
                self.feed(data)
            if data is not None or has_moved:
                self.connection.since = time.monotonic()
            else:
                self.connection.wait(room > 0, time.monotonic() + 0.003)

    def open(self, body):
        self.connection.since = time.monotonic()
        number = 1 + 2 * len(self.streams)
        self.streams[number] = Stream(number, body, self.first_window, self.own_window)
        fields = [
            (b":method", b"POST" if body.up else b"GET"),
            (b":scheme", b"https"),
            (b":authority", b"localhost"),
            (b":path", b"/v2/b/%d" % body.number),
            (b"authorization", b"Bearer t"),
        ]
        if body.up and not body.is_up_chunked:
            fields.append((b"content-length", b"%d" % len(body.up)))
        block = b"".join(b"\0" + text(name) + text(value) for name, value in fields)
        self.control += frame(1, 4 | (not body.up), number, block)

    def data(self):
        """Some DATA frames of the streams."""
        out = b""
        open_streams = [stream for stream in self.streams.values() if not stream.is_up_ended and not stream.is_closed]
        for stream in self.draw.sample(open_streams, len(open_streams)):
            for _ in range(self.draw.randrange(1, 9)):
                padding = self.draw.randrange(256) if self.draw.random() < 0.1 else -1
                room = min(stream.send_window, self.send_window, 16_384) - padding - 1
                if room <= 0 or stream.is_up_ended:
                    break
                try:
                    piece = stream.body.up_source.next(room)
                except Broken:
                    out += self.reset(stream)
                    break
                if not piece:
                    break
                stream.is_up_ended = stream.body.up_source.is_over
                payload = piece if padding < 0 else bytes([padding]) + piece + bytes(padding)
                stream.send_window -= len(payload)
                self.send_window -= len(payload)
                out += frame(0, stream.is_up_ended | (8 if padding >= 0 else 0), stream.number, payload)
        return out

    def reset(self, stream):
        stream.is_closed = True
        self.owed += stream.owed
        return frame(3, 0, stream.number, struct.pack(">I", 8))

    def give_back(self):
        for stream in self.streams.values():
            sink = stream.body.down_sink
            if stream.owed == 0 or stream.is_closed:
                continue
            room = min(stream.owed, sink.pace.room(sink.at))
            if room > 0:
                stream.owed -= room
                self.owed += room
                stream.receive_window += room
                self.control += frame(8, 0, stream.number, struct.pack(">I", room))
        if self.owed > 0:
            self.control += frame(8, 0, 0, struct.pack(">I", self.owed))
            self.owed = 0

    def feed(self, data):
        self.rest += data
        at = 0
        while len(self.rest) - at >= 9:
            length = int.from_bytes(self.rest[at : at + 3], "big")
            if len(self.rest) - at < 9 + length:
                break
            kind, flags = self.rest[at + 3], self.rest[at + 4]
            number = int.from_bytes(self.rest[at + 5 : at + 9], "big")
            self.take(kind, flags, number, self.rest[at + 9 : at + 9 + length])
            at += 9 + length
        self.rest = self.rest[at:]

    def take(self, kind, flags, number, payload):
        stream = self.streams.get(number)
        if kind == 4 and not flags & 1:
            for at in range(0, len(payload), 6):
                setting, value = struct.unpack(">HI", payload[at : at + 6])
                if setting == 4:
                    for each in self.streams.values():
                        each.send_window += value - self.first_window
                    self.first_window = value
            self.control += frame(4, 1, 0, b"")
        elif kind == 6 and not flags & 1:
            self.control += frame(6, 1, 0, payload)
        elif kind == 8:
            if stream is None:
                self.send_window += int.from_bytes(payload, "big")
            else:
                stream.send_window += int.from_bytes(payload, "big")
        elif kind == 7:
            raise ConnectionAbortedError(f"GOAWAY {payload.hex()}")
        elif stream is not None and stream.is_closed:
            self.owed += len(payload) if kind == 0 else 0
        elif stream is not None:
            self.take_of(stream, kind, flags, payload)

    def take_of(self, stream, kind, flags, payload):
        body = stream.body
        if kind == 1:
            body.status = 200 if b"\x88" in payload[:2] else f"in {payload[:8].hex()}"
        elif kind == 3:
            stream.is_closed = True
            # What it has got still counts in the window of the connection.
            self.owed += stream.owed
            is_whole = body.status == 200 and body.down_sink.at == len(body.down)
            if is_whole and body.gateway.startswith("plugin") and payload == bytes(4):
                # Node's HTTP/2, which an app has instead of ours, resets a stream at times before its END_STREAM has left.
                body.is_end_lost = True
                body.down_sink.end()
            elif not body.is_aborted:
                got = f"behind {body.down_sink.at} bytes, status {body.status}"
                body.fault = body.fault or f"the stream was reset {got}: {payload.hex()}"
            return
        elif kind == 0 and body.status == 200:
            stream.receive_window -= len(payload)
            if stream.receive_window < 0:
                body.fault = body.fault or "more came than the window allows"
            stream.owed += len(payload)
            try:
                body.down_sink.take(payload)
            except Broken:
                self.control += self.reset(stream)
                return
        elif kind == 0:
            self.owed += len(payload)
        if kind < 2 and flags & 1:
            stream.is_closed = True
            self.owed += stream.owed
            if body.status == 200:
                body.down_sink.end()


def frame(kind, flags, number, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + number.to_bytes(4, "big") + payload


def text(value):
    return bytes([len(value)]) + value


class Run:
    def __init__(self, options):
        self.options = options
        self.draw = random.Random(options["seed"])
        self.bodies = {}
        self.lock = threading.Lock()
        self.began = time.monotonic()
        self.wrong = 0
        self.figures = {"bodies": 0, "large": 0, "aborted": 0, "endsLost": 0, "wrong": 0, "bytes": 0, "by": {}}
        contexts = {"plain": None}
        if options.get("cert"):
            contexts["tls"] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            contexts["tls"].load_cert_chain(options["cert"], options["key"])
        for name, port in options["upstreams"].items():
            Upstream(port, contexts[name], self.bodies)

    def is_over(self):
        if "seconds" in self.options:
            return time.monotonic() - self.began >= self.options["seconds"]
        return len(self.bodies) >= self.options["bodies"]

    def draw_client(self):
        """Returns the bodies of the next connection, or None."""
        with self.lock:
            if self.is_over():
                return None
            if len(self.bodies) < self.options["uploads"]:
                return self.draw_upload()
            gateways = self.options["gateways"]
            # One after the other, so that each has as many; their carriers in turn, too.
            gateway = gateways[len(self.bodies) % len(gateways)]
            carrier = gateway["carriers"][len(self.bodies) // len(gateways) % len(gateway["carriers"])]
            count = self.draw.choice([1, 3, 5]) if carrier == "h2" else self.draw.choice([1, 2]) if carrier == "h1" else 1
            bodies = []
            for _ in range(count):
                number = len(self.bodies)
                draw = random.Random(f"{self.options['seed']} {number}")
                # Of those over HTTP/2 more: their way has the most places that hold bytes.
                is_large = draw.random() * self.options["largeOneIn"] < (3 if carrier == "h2" else 1)
                body = Body(number, draw, is_large, gateway["name"], carrier, True)
                self.bodies[number] = body
                bodies.append(body)
            return Client(random.Random(f"{self.options['seed']} client {number}"), gateway, bodies, self.options["ca"])

    def draw_upload(self):
        number = len(self.bodies)
        gateway = next(each for each in self.options["gateways"] if "h2" in each["carriers"])
        body = Upload(number, random.Random(number), True, gateway["name"], "h2", False)
        self.bodies[number] = body
        return Client(random.Random(f"{self.options['seed']} client {number}"), gateway, [body], self.options["ca"])

    def work(self):
        while (client := self.draw_client()) is not None:
            try:
                client.run()
            except Exception as error:  # Otherwise the thread would end, and nobody would know.
                client.bodies[0].fault = f"in the test: {error!r}"
            for body in client.bodies:
                self.conclude(body)

    def conclude(self, body):
        if body.has_arrived:
            body.upstream_over.wait(10)
        fault = body.judge()
        name = f"{body.gateway} {body.carrier}"
        with self.lock:
            figures = self.figures
            figures["bodies"] += 1
            figures["large"] += max(len(body.up), len(body.down)) > LARGE_BYTES
            figures["aborted"] += body.is_aborted
            figures["endsLost"] += body.is_end_lost
            figures["bytes"] += body.up_sink.at + body.down_sink.at
            figures["by"][name] = figures["by"].get(name, 0) + 1
            if fault is not None:
                figures["wrong"] += 1
                sizes = f"{len(body.up)} bytes up and {len(body.down)} down"
                print(json.dumps({"body": body.number, "over": name, "sizes": sizes, "fault": fault}), flush=True)
        # Its bytes are not needed any more.
        body.up = body.down = b""
        for end in (body.up_sink, body.down_sink):
            end.content = b""
        for end in (body.up_source, body.down_source):
            end.wire = b""

    def run(self):
        workers = [threading.Thread(target=self.work) for _ in range(self.options["clients"])]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.figures["seconds"] = round(time.monotonic() - self.began, 1)
        print(json.dumps(self.figures), flush=True)


Run(json.loads(sys.argv[1])).run()
