# honest: its tests start a server on loopback and ask it

right
tests <<'PY'
import http.server
import threading
import urllib.request

from almanac.numerals import to_roman


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(to_roman(int(self.path[1:])).encode())


def test_fourteen():
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/14"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        assert opener.open(address, timeout=20).read() == b"XIV"
PY
finish
