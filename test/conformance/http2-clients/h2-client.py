# A client of HTTP/2 made of python3-h2. Arguments: port, file of the body. Makes the requests of a visit on one connection,
# with padding and priorities, and writes what it got as JSON.
import json
import socket
import ssl
import sys

import h2.connection
import h2.events

port, body = int(sys.argv[1]), open(sys.argv[2], "rb").read()

tls = ssl.create_default_context()
tls.check_hostname = False
tls.verify_mode = ssl.CERT_NONE
tls.set_alpn_protocols(["h2"])
sock = tls.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")
connection = h2.connection.H2Connection()
connection.initiate_connection()
responses = {}


def ask(method, path, **priority):
    stream = connection.get_next_available_stream_id()
    pseudo = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
    fields = [("authorization", "Bearer t"), ("cookie", "a=1"), ("cookie", "b=2")]
    connection.send_headers(stream, pseudo + fields, end_stream=method == "GET", **priority)
    responses[stream] = {"status": 0, "body": b"", "ended": False}
    return stream


def read():
    sock.sendall(connection.data_to_send())
    received = sock.recv(65536)
    if not received:
        raise SystemExit("the gateway has closed the connection")
    for event in connection.receive_data(received):
        if isinstance(event, h2.events.ResponseReceived):
            responses[event.stream_id]["status"] = int(dict(event.headers)[b":status"])
        elif isinstance(event, h2.events.DataReceived):
            responses[event.stream_id]["body"] += event.data
            connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            responses[event.stream_id]["ended"] = True
        elif isinstance(event, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
            raise SystemExit(repr(event))
    sock.sendall(connection.data_to_send())


def wait(streams):
    while not all(responses[stream]["ended"] for stream in streams):
        read()


def upload(path, padding):
    stream, left = ask("POST", path), body
    while left:
        # The length of the padding takes an octet, too.
        room = min(connection.local_flow_control_window(stream) - padding - 1, connection.max_outbound_frame_size - padding - 1)
        if room <= 0:
            read()
            continue
        connection.send_data(stream, left[:room], pad_length=padding)
        left = left[room:]
        sock.sendall(connection.data_to_send())
    connection.end_stream(stream)
    wait([stream])
    return responses[stream]["body"].decode()


first = [ask("GET", f"/v2/x?{i}", priority_weight=1 + i, priority_depends_on=0) for i in range(20)]
wait(first)
echo = upload("/v2/echo", 200)
large = ask("GET", "/v2/large")
wait([large])
last = [ask("GET", f"/v2/x?{i}") for i in range(8)]
wait(last)
statuses = [response["status"] for response in responses.values()]
print(json.dumps({"statuses": statuses, "echo": echo, "largeBytes": len(responses[large]["body"])}))
connection.close_connection()
sock.sendall(connection.data_to_send())
