#!/usr/bin/env python3
"""The MUST rules of HTTP/1.1 as Http11Probe lists them, one row per probe.

    http_conformance_test.py REPRISE_BINARY MODEL_FOLDER

The names are those of Http11Probe's "RFC Requirement Dashboard" (mda2av.github.io/Http11Probe, 84 probes of level MUST,
commit 12afcc9); the requests are our own. A refused request gets exactly one answer, in the form of all errors, and the
connection ends: bytes behind the refused request are never taken for another one. Only Python's standard library.
"""

import re
import socket
import sys
import unittest

import serve_test
from server_limits_test import Case

HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"
CLOSE = b"Connection: close\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"GET /version HTTP/1.1\r\n" + HOST + b"\r\n"
GONE = None  # the connection ends without an answer


def get(*lines, target=b"/health", version=b"HTTP/1.1", host=HOST):
    return b"GET " + target + b" " + version + b"\r\n" + host + b"".join(lines) + b"\r\n"


def post(*lines, body=b""):
    return b"POST /ping HTTP/1.1\r\n" + HOST + b"".join(lines) + b"\r\n" + body


def length(value):
    return post(b"Content-Length:" + value + b"\r\n", body=b"hello" + SMUGGLED)


def coded(value, *more, body=b"0\r\n\r\n"):
    return post(b"Transfer-Encoding:" + value + b"\r\n", *more, body=body + SMUGGLED)


def chunks(body):
    return post(CHUNKED, body=body + SMUGGLED)


# Rows: name, request, status of the only answer (GONE: no answer)
REFUSED = (
    ("RFC9110-5.6.2-SP-BEFORE-COLON", get(b"X-Test : a\r\n"), 400),
    ("RFC9112-7.1-MISSING-HOST", get(host=b""), 400),
    ("RFC9110-5.4-DUPLICATE-HOST", get(b"Host: other\r\n"), 400),
    ("COMP-DUPLICATE-HOST-SAME", get(HOST), 400),
    ("RFC9112-3-CR-ONLY-LINE-ENDING", b"GET /health HTTP/1.1\rHost: localhost\r\r", 400),
    ("RFC9112-5-EMPTY-HEADER-NAME", get(b": a\r\n"), 400),
    ("RFC9112-5-INVALID-HEADER-NAME", get(b"X[a]: a\r\n"), 400),
    ("RFC9112-5-HEADER-NO-COLON", get(b"X-Test\r\n"), 400),
    ("COMP-WHITESPACE-BEFORE-HEADERS", b"GET /health HTTP/1.1\r\n " + HOST + b"\r\n", 400),
    ("RFC9112-3-MISSING-TARGET", b"GET HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    ("COMP-ASTERISK-WITH-GET", get(target=b"*"), 400),
    ("COMP-HOST-WITH-USERINFO", get(host=b"Host: user@localhost\r\n"), 400),
    ("COMP-HOST-WITH-PATH", get(host=b"Host: localhost/a\r\n"), 400),
    ("COMP-HOST-EMPTY-VALUE", get(host=b"Host:\r\n"), 400),
    ("COMP-VERSION-MISSING-MINOR", get(version=b"HTTP/1"), 400),
    ("COMP-VERSION-LEADING-ZEROS", get(version=b"HTTP/01.01"), 400),
    ("COMP-VERSION-WHITESPACE", get(version=b"HTTP/ 1.1"), 400),
    ("RFC9112-6.1-CL-NON-NUMERIC", length(b" abc"), 400),
    ("RFC9112-6.1-CL-PLUS-SIGN", length(b" +5"), 400),
    ("SMUG-DUPLICATE-CL", post(b"Content-Length: 5\r\nContent-Length: 6\r\n", body=b"hello" + SMUGGLED), 400),
    ("SMUG-CL-COMMA-DIFFERENT", length(b" 5, 6"), 400),
    ("SMUG-CL-NEGATIVE", length(b" -5"), 400),
    ("SMUG-CL-NEGATIVE-ZERO", length(b" -0"), 400),
    ("SMUG-CL-UNDERSCORE", length(b" 1_0"), 400),
    ("SMUG-CL-OCTAL", length(b" 0o5"), 400),
    ("SMUG-CL-HEX-PREFIX", length(b" 0x5"), 400),
    ("SMUG-CL-INTERNAL-SPACE", length(b" 5 0"), 400),
    ("SMUG-TE-SP-BEFORE-COLON", post(b"Transfer-Encoding : chunked\r\n", body=b"0\r\n\r\n" + SMUGGLED), 400),
    ("SMUG-TE-NOT-FINAL-CHUNKED", coded(b" chunked, gzip"), 400),
    ("SMUG-TE-HTTP10", b"POST /ping HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n0\r\n\r\n" + SMUGGLED, 400),
    ("SMUG-TE-EMPTY-VALUE", coded(b"", b"Content-Length: 5\r\n"), 400),
    ("SMUG-TE-DUPLICATE-HEADERS", coded(b" chunked", b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n"), 400),
    ("SMUG-TE-IDENTITY", coded(b" identity", b"Content-Length: 5\r\n"), 400),
    ("SMUG-TE-VTAB", coded(b" \x0bchunked", b"Content-Length: 5\r\n"), 400),
    ("SMUG-TE-FORMFEED", coded(b" \x0cchunked", b"Content-Length: 5\r\n"), 400),
    ("SMUG-TE-NULL", coded(b" chunked\x00", b"Content-Length: 5\r\n"), 400),
    ("SMUG-BARE-CR-HEADER-VALUE", get(b"X-Test: a\rb\r\n"), 400),
    ("SMUG-MULTIPLE-HOST-COMMA", get(host=b"Host: localhost, other\r\n"), 400),
    ("SMUG-TE-OBS-FOLD", coded(b"\r\n chunked", b"Content-Length: 5\r\n"), 400),
    # This rule lets a server refuse a folded header or read it as one line.
    ("RFC9112-5.1-OBS-FOLD", get(b"X-Test: a\r\n b\r\n"), 400),
    ("SMUG-CHUNK-BARE-SEMICOLON", chunks(b"5;\r\nhello\r\n0\r\n\r\n"), 400),
    ("SMUG-CHUNK-HEX-PREFIX", chunks(b"0x5\r\nhello\r\n0\r\n\r\n"), 400),
    ("SMUG-CHUNK-UNDERSCORE", chunks(b"1_0\r\nhello\r\n0\r\n\r\n"), 400),
    ("SMUG-CHUNK-LEADING-SP", chunks(b" 5\r\nhello\r\n0\r\n\r\n"), 400),
    ("SMUG-CHUNK-MISSING-TRAILING-CRLF", chunks(b"5\r\nhello0\r\n\r\n"), 400),
    ("SMUG-CHUNK-SPILL", chunks(b"5\r\nhello!!\r\n0\r\n\r\n"), 400),
    ("SMUG-CHUNK-NEGATIVE", chunks(b"-1\r\nhello\r\n0\r\n\r\n"), 400),
    ("SMUG-CHUNK-EXT-CTRL", chunks(b"5;a=\x00\r\nhello\r\n0\r\n\r\n"), 400),
    ("SMUG-CHUNK-EXT-CR", chunks(b"5;a=\rb\r\nhello\r\n0\r\n\r\n"), 400),
    ("SMUG-CHUNK-BARE-CR-TERM", chunks(b"5\rhello\r\n0\r\n\r\n"), 400),
    ("SMUG-CLTE-PIPELINE", post(b"Content-Length: 5\r\n", CHUNKED, body=b"0\r\n\r\n" + SMUGGLED), 400),
    ("SMUG-TECL-PIPELINE", post(CHUNKED, b"Content-Length: 5\r\n", body=b"0\r\n\r\n" + SMUGGLED), 400),
    ("SMUG-TE-XCHUNKED", coded(b" xchunked", b"Content-Length: 5\r\n"), 400),
    ("COMP-POST-CL-UNDERSEND", post(b"Content-Length: 10\r\n", body=b"hello"), GONE),
    ("COMP-CHUNKED-NO-FINAL", post(CHUNKED, body=b"5\r\nhello\r\n"), GONE),
    ("MAL-NUL-IN-URL", get(target=b"/heal\x00th"), 400),
    ("MAL-CONTROL-CHARS-HEADER", get(b"X-Test: a\x01\x02b\r\n"), 400),
    ("MAL-NON-ASCII-HEADER-NAME", get(b"X-T\xc3\xa9st: a\r\n"), 400),
    ("MAL-NON-ASCII-URL", get(target=b"/h\xc3\xa9alth"), 400),
    ("MAL-CL-OVERFLOW", length(b" 99999999999999999999"), 400),
    ("MAL-NUL-IN-HEADER-VALUE", get(b"X-Test: a\x00b\r\n"), 400),
    ("MAL-CHUNK-SIZE-OVERFLOW", chunks(b"FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n"), 400),
    ("MAL-CL-EMPTY", length(b""), 400),
    ("MAL-URL-OVERLONG-UTF8", get(target=b"/\xc0\xaf"), 400),
    ("NORM-SP-BEFORE-COLON-CL", post(b"Content-Length : 5\r\n", body=b"hello" + SMUGGLED), 400),
    ("NORM-TAB-IN-NAME", get(b"X\tTest: a\r\n"), 400),
    ("COMP-UNKNOWN-TE-501", coded(b" gzip"), 400),
    ("SMUG-TE-TRAILING-SPACE", coded(b" chunked ", b"Content-Length: 5\r\n"), 400),
    ("MAL-POST-CL-HUGE-NO-BODY", post(b"Content-Length: 999999999\r\n"), 413),
)

# Rows: name, request, status of the first answer, whether the connection stays open for another request
ACCEPTED = (
    ("COMP-CONNECTION-CLOSE", get(CLOSE), 200, False),
    ("COMP-OPTIONS-STAR", b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 200, True),
    ("COMP-POST-CL-BODY", post(b"Content-Length: 5\r\n", body=b"hello"), 200, True),
    ("COMP-POST-CL-ZERO", post(b"Content-Length: 0\r\n"), 200, True),
    ("COMP-POST-NO-CL-NO-TE", post(), 200, True),
    ("COMP-CHUNKED-BODY", post(CHUNKED, body=b"5\r\nhello\r\n0\r\n\r\n"), 200, True),
    ("COMP-CHUNKED-MULTI", post(CHUNKED, body=b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"), 200, True),
    ("COMP-CHUNKED-EMPTY", post(CHUNKED, body=b"0\r\n\r\n"), 200, True),
    ("COMP-CHUNKED-HEX-UPPERCASE", post(CHUNKED, body=b"A\r\nhellohello\r\n0\r\n\r\n"), 200, True),
    ("COMP-CHUNKED-TRAILER-VALID", post(CHUNKED, body=b"5\r\nhello\r\n0\r\nX-Trailer: a\r\n\r\n"), 200, True),
    ("COMP-CHUNKED-EXTENSION", post(CHUNKED, body=b"5;name=value\r\nhello\r\n0\r\n\r\n"), 200, True),
    # No request switches the protocol; each is answered as if it had not asked for that.
    ("COMP-UPGRADE-POST", post(b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n"), 200, True),
    ("COMP-UPGRADE-MISSING-CONN", get(b"Upgrade: websocket\r\n"), 200, True),
    ("COMP-UPGRADE-UNKNOWN", get(b"Connection: Upgrade\r\nUpgrade: gopher/1\r\n"), 200, True),
    ("COMP-UPGRADE-INVALID-VER", get(b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 99\r\n"), 200, True),
)


# Not in the list: requests that a server may refuse or accept, and that another server in front may read differently.
ALSO_REFUSED = (
    ("OBS-FOLD-BEFORE-VALUE", get(b"X-Test:\r\n a\r\n"), 400),
    ("OBS-FOLD-TAB", get(b"X-Test: a\r\n\tb\r\n"), 400),
    ("OBS-FOLD-BLANK", get(b"X-Test: a\r\n \r\n"), 400),
    ("OBS-FOLD-TE-ALONE", coded(b"\r\n chunked"), 400),
    ("OBS-FOLD-CL", length(b"\r\n 5"), 400),
    ("CL-LIST-OF-EQUALS", length(b" 5, 5"), 400),
    ("HOST-TWO-PORTS", get(host=b"Host: localhost:80:81\r\n"), 400),
    ("HOST-NAME-AS-PORT", get(host=b"Host: localhost:http\r\n"), 400),
    ("HOST-HALF-A-BRACKET", get(host=b"Host: [::1\r\n"), 400),
    ("HOST-BRACKET-INSIDE", get(host=b"Host: a[b]\r\n"), 400),
    ("HOST-PERCENT", get(host=b"Host: local%68ost\r\n"), 400),
    ("HOST-ONLY-A-PORT", get(host=b"Host: :80\r\n"), 400),
)
ALSO_ACCEPTED = (
    ("HOST-IPV6", get(host=b"Host: [::1]:8000\r\n"), 200, True),
    ("HOST-BESIDE-A-URL", get(host=b"Host: localhost\r\n", target=b"http://127.0.0.1:1/health"), 200, True),
    ("HEADER-EMPTY", get(b"X-Test:\r\nX-Other: \r\n"), 200, True),
    ("HEADER-SPACES", get(b"X-Test: \t a b \r\n"), 200, True),
)

# Not in the list: the target may be a whole URL, whose host counts instead of the header's (RFC 9112, 3.2.2).
URLS = (
    (get(CLOSE, target=b"http://localhost/health"), 200),
    (get(CLOSE, target=b"HTTP://localhost:80/health?a=b"), 200),
    (get(CLOSE, target=b"http://localhost/nothing"), 404),
    (get(CLOSE, target=b"http://localhost?a"), 200),  # the page
    (get(CLOSE, target=b"http://evil.example/health"), 403),
    (get(CLOSE, target=b"http://localhost/health", host=b"Host: evil.example\r\n"), 200),
    (get(CLOSE, target=b"http://user@localhost/health"), 400),
    (get(CLOSE, target=b"http:///health"), 400),
    (get(CLOSE, target=b"ftp://localhost/health"), 400),
    (get(CLOSE, target=b"health"), 400),
    (b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n", 400),
)


class Conformance(Case):
    @classmethod
    def setUpClass(cls):
        cls.server = serve_test.Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_the_table_has_every_probe(self):
        names = [row[0] for row in REFUSED + ACCEPTED]
        self.assertEqual((len(names), len(set(names))), (84, 84))

    def test_every_request_that_must_be_refused_is_refused(self):
        for name, request, status in REFUSED + ALSO_REFUSED:
            with self.subTest(name):
                connection = self.open(self.server, request)
                if status is GONE:
                    connection.shutdown(socket.SHUT_WR)
                answer = self.read(connection)
                statuses = re.findall(rb"HTTP/1\.1 (\d+) ", answer)
                self.assertEqual(statuses, [] if status is GONE else [b"%d" % status], answer[:300])
                if status is not GONE:
                    self.assert_error(answer, status)
        self.assertEqual(self.server.request("GET", "/health")[0].status, 200)

    def test_every_request_that_must_be_accepted_is_accepted(self):
        for name, request, status, stays_open in ACCEPTED + ALSO_ACCEPTED:
            with self.subTest(name):
                connection = self.open(self.server, request)
                if stays_open:
                    connection.sendall(get(CLOSE))
                statuses = re.findall(rb"HTTP/1\.1 (\d+) ", self.read(connection))
                self.assertEqual(statuses, [b"%d" % status] + [b"200"] * stays_open)

    def test_a_target_may_be_a_whole_url(self):
        for request, status in URLS:
            with self.subTest(request):
                self.assertEqual(self.read(self.open(self.server, request))[:12], b"HTTP/1.1 %d" % status)


if __name__ == "__main__":
    serve_test.BINARY, serve_test.MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
