"""A plug, an instrument with faults, and a management controller with Redfish, for the tests of the meters.

Usage: server.py PORT LOG [CERTIFICATE KEY]. Prints the port once it listens; LOG gets a line for each request.
"""

import base64
import http.server
import json
import ssl
import sys
import time

USER, PASSWORD = "reader", "open sesame"
BASIC = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

PLUGS = {
    "/meter/0": {"power": 41.7, "is_valid": True, "timestamp": 1680779310, "total": 439237},
    "/rpc/Switch.GetStatus?id=1": {"id": 1, "apower": 8.9, "aenergy": {"total": 14.093, "minute_ts": 1626935779}},
    "/seconds": {"w": 3.5, "t": 1700000000},
    "/null": {"w": None},
}
TASMOTA = {"StatusSNS": {"ENERGY": {"Total": 3.705, "Power": 5}}}

ROOT = "/redfish/v1/"
CHASSIS = {"1": {"Power": "Power", "EnvironmentMetrics": "EnvironmentMetrics"}, "Old": {"Power": "Power", "EnvironmentMetrics": "Gone"},
           "Fan": {}}
CONTROL = {"PowerConsumedWatts": 344, "PowerMetrics": {"IntervalInMin": 20, "AverageConsumedWatts": 319.5}}


def redfish(path):
    """The document at a path, or None."""
    if path == ROOT:
        return {"Chassis": {"@odata.id": ROOT + "Chassis"}, "Links": {"Sessions": {"@odata.id": ROOT + "SessionService/Sessions"}}}
    if path == ROOT + "Chassis":
        return {"Members": [{"@odata.id": f"{ROOT}Chassis/{name}"} for name in CHASSIS] + [{"@odata.id": "https://127.0.0.9/x"}]}
    name, _, rest = path.removeprefix(ROOT + "Chassis/").partition("/")
    if name not in CHASSIS:
        return None
    if not rest:
        links = {key: {"@odata.id": f"{path}/{last}"} for key, last in CHASSIS[name].items()}
        return {"Id": name, **links}
    if rest == "Power":
        return {"PowerControl": [CONTROL, {"Name": "CPU", "PowerConsumedWatts": 120}]}
    if rest == "EnvironmentMetrics":
        return {"PowerWatts": {"Reading": 374.2}, "EnergyJoules": {"Reading": 1172430}}
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log = None
    tokens = {}

    def log_message(self, *_):
        pass

    def note(self):
        kind = (self.headers.get("Authorization") or "none").split()[0]
        token = "token" if self.headers.get("X-Auth-Token") else kind
        print(self.command, self.path.split("?")[0], token, file=self.log, flush=True)

    def answer(self, status, body=b"", **headers):
        body = json.dumps(body).encode() if isinstance(body, dict) else body
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def knows_user(self):
        """Each token is good for twenty requests."""
        token = self.headers.get("X-Auth-Token")
        if token in self.tokens:
            self.tokens[token] -= 1
            return self.tokens[token] >= 0
        return self.headers.get("Authorization") == BASIC

    def fault(self):
        if self.path == "/hang":
            time.sleep(3600)
        elif self.path == "/drip":
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            while True:
                self.wfile.write(b" ")
                time.sleep(0.05)
        elif self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b" " * 65536)
        elif self.path == "/away":
            self.answer(302, Location="/meter/0")
        elif self.path == "/cut":
            self.answer(200, b'{"w": 3')
        else:
            self.answer(int(self.path.removeprefix("/status/")))

    def do_GET(self):
        self.note()
        if self.path in PLUGS:
            self.answer(200, PLUGS[self.path])
        elif self.path == "/basic":
            self.answer(*((200, {"w": 1.5}) if self.knows_user() else (401,)))
        elif self.path == "/bearer":
            good = self.headers.get("Authorization") == "Bearer " + PASSWORD
            self.answer(*((200, {"w": 2.5}) if good else (401,)))
        elif self.path.startswith("/cm?cmnd=Status%208"):
            good = self.path.endswith("&user=reader&password=open%20sesame")
            self.answer(*((200, TASMOTA) if good else (401,)))
        elif self.path.startswith(ROOT):
            document = redfish(self.path)
            known = self.path == ROOT or self.knows_user()
            self.answer(*((401,) if not known else (404,) if document is None else (200, document)))
        else:
            self.fault()

    def do_POST(self):
        self.note()
        wanted = {"UserName": USER, "Password": PASSWORD}
        if json.loads(self.rfile.read(int(self.headers["Content-Length"]))) != wanted:
            return self.answer(401)
        token = f"token{len(self.tokens)}"
        self.tokens[token] = 20
        self.answer(201, {}, X_Auth_Token=token, Location=f"https://{self.headers['Host']}{self.path}/{token}")

    def do_DELETE(self):
        self.note()
        self.tokens.pop(self.path.rpartition("/")[2], None)
        self.answer(204)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


def main():
    port, log, *tls = sys.argv[1:]
    Handler.log = open(log, "a")
    server = Server(("127.0.0.1", int(port)), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(server.server_port, flush=True)
    server.serve_forever()


main()
