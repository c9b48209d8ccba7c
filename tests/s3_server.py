"""A small server that speaks S3 (and plain HTTP) about the files of a folder.

    python s3_server.py FOLDER

Runs as a process of its own on 127.0.0.1 and writes its port as the first line. Knows
HEAD and GET of objects with ranges and conditions, and ListObjectsV2 in pages. What it
does wrong on purpose stands in the file FOLDER/.faults, one word a line, read anew for every
request: ``forbid`` (403), ``cut`` (bodies of which the last byte never comes), ``hang``
(no answer), ``busy`` (503 for every second request). Requests are noted in FOLDER/.requests.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

PAGE = 3
COUNT = itertools.count()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path).strip("/")
        with open(self.folder / ".requests", "a") as log:
            log.write(f"{self.command} {self.path} {self.headers.get('Range', '')}\n")
        faults = (self.folder / ".faults").read_text().split()
        if "hang" in faults:
            time.sleep(3600)
        if "forbid" in faults:
            return self.error(403, "AccessDenied")
        if "busy" in faults and next(COUNT) % 2 == 0:
            return self.error(503, "SlowDown")
        query = parse_qs(url.query)
        if "list-type" in query:
            return self.listing(path, query)
        file = self.folder / path
        if not file.is_file():
            return self.error(404, "NoSuchKey")
        data = file.read_bytes()
        etag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        if self.headers.get("If-Match", etag) != etag:
            return self.error(412, "PreconditionFailed")
        status, first, last = 200, 0, len(data) - 1
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            status, first = 206, int(asked[1])
            last = min(last, int(asked[2] or last))
        part = data[first : last + 1]
        self.send_response(status)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("ETag", etag)
        self.send_header("Last-Modified", self.date_time_string(int(file.stat().st_mtime)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.end_headers()
        if not body:
            return None
        if "cut" in faults:
            self.wfile.write(part[: len(part) // 2])
            self.close_connection = True
            return None
        self.wfile.write(part)
        return None

    def listing(self, bucket: str, query: dict[str, list[str]]) -> None:
        prefix = query.get("prefix", [""])[0]
        root = self.folder / bucket
        keys = sorted(
            key
            for file in root.rglob("*")
            if file.is_file() and (key := str(file.relative_to(root))).startswith(prefix)
        )
        begin = int(query.get("continuation-token", ["0"])[0])
        page = keys[begin : begin + PAGE]
        more = begin + PAGE < len(keys)
        items = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{(root / key).stat().st_size}</Size>"
            f"<LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>&quot;{self.md5(root / key)}&quot;</ETag></Contents>"
            for key in page
        )
        token = f"<NextContinuationToken>{begin + PAGE}</NextContinuationToken>" if more else ""
        self.xml(
            200,
            f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(page)}</KeyCount><MaxKeys>{PAGE}</MaxKeys>"
            f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{items}</ListBucketResult>",
        )

    @staticmethod
    def md5(file: Path) -> str:
        return hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()

    def error(self, status: int, code: str) -> None:
        self.xml(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>")

    def xml(self, status: int, text: str) -> None:
        body = b'<?xml version="1.0" encoding="UTF-8"?>' + text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main(folder: str) -> None:
    Handler.folder = Path(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
