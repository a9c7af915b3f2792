"""A Hugging Face hub on this machine: the addresses that huggingface_hub and `reprise pull` ask, and no more.

Large files are answered as by the real hub: with a redirect to another server, which stands for a store of objects. Both
servers note what they were asked. Faults are functions that may answer instead.
"""

import hashlib
import http.server
import json
import re
import ssl
import threading
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "Tiny/Model-1.0"


def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Repository:
    """Its files by path. Those with `large` in their ending are kept by SHA-256, as in Git LFS."""

    def __init__(self, files, large=(".safetensors", ".gguf", ".bin"), commit=COMMIT, revision="main"):
        self.files, self.large, self.commit, self.revision = files, large, commit, revision
        self.gated = False

    def is_large(self, path):
        return path.endswith(self.large)

    def etag(self, path):
        content = self.files[path]
        return hashlib.sha256(content).hexdigest() if self.is_large(path) else git_hash(content)

    def entry(self, path):
        content = self.files[path]
        entry = {"type": "file", "oid": git_hash(content), "size": len(content), "path": path}
        if self.is_large(path):
            entry["oid"] = git_hash(b"pointer of " + path.encode())
            entry["lfs"] = {"oid": self.etag(path), "size": len(content), "pointerSize": 130}
        return entry


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    hub = None

    def handle_error(self, request, client_address):
        pass  # clients that are killed close their connections


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    is_store = False

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer_request()

    def do_GET(self):
        self.answer_request()

    def answer_request(self):
        hub = self.server.hub
        url = urllib.parse.urlsplit(self.path)
        self.path_only, self.query = urllib.parse.unquote(url.path), dict(urllib.parse.parse_qsl(url.query))
        with hub.lock:
            (hub.store_requests if self.is_store else hub.requests).append(
                (self.command, self.path, {name.lower(): value for name, value in self.headers.items()}))
        for fault in list(hub.faults):
            if fault(self):
                return
        try:
            self.serve(hub)
        except BrokenPipeError:
            self.close_connection = True

    def reply(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reply_json(self, value, **headers):
        self.reply(200, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def reply_content(self, content, **headers):
        """With the part that Range asks for."""
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if not asked:
            self.reply(200, content, **headers)
        elif int(asked[1]) >= len(content):
            self.reply(416, Content_Range=f"bytes */{len(content)}")
        else:
            begin = int(asked[1])
            self.reply(206, content[begin:], Content_Range=f"bytes {begin}-{len(content) - 1}/{len(content)}", **headers)


class _HubHandler(_Handler):
    def serve(self, hub):
        if hub.prefix and not self.path_only.startswith(hub.prefix):
            return self.reply(404)
        path = self.path_only[len(hub.prefix):]
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", path)
        resolve = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        cached = re.fullmatch(r"/api/resolve-cache/([^/]+/[^/]+)/([^/]+)/(.+)", path)
        match = api or resolve or cached
        repository = hub.repositories.get(match[1]) if match else None
        if repository is None:
            return self.reply(401 if "Authorization" not in self.headers else 404, X_Error_Code="RepoNotFound",
                              X_Error_Message="Repository not found")
        has_token = self.headers.get("Authorization") == f"Bearer {hub.token}"
        if "Authorization" in self.headers and hub.token and not has_token:
            return self.reply(401, X_Error_Message="Invalid credentials in Authorization header")
        if repository.gated and not has_token and not (api and api[2] == "revision"):
            return self.reply(401, X_Error_Code="GatedRepo", X_Error_Message="Access to the model is restricted.")
        revision = (api and (api[3] or repository.revision)) or match[2]
        if revision not in (repository.revision, repository.commit):
            return self.reply(404, X_Error_Code="RevisionNotFound", X_Error_Message=f"Invalid rev id: {revision}")
        if api:
            return self.serve_api(hub, repository, api[1], api[2])
        return self.serve_file(hub, repository, match[1], match[3], is_final=bool(cached))

    def serve_api(self, hub, repository, name, what):
        if what == "tree":
            entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "sub"}]
            entries += hub.tree(repository) if hub.tree else [repository.entry(path) for path in sorted(repository.files)]
            begin = int(self.query.get("cursor", 0))
            rest = entries[begin + hub.page_size:]
            link = {}
            if rest:
                query = urllib.parse.urlencode({**self.query, "cursor": begin + hub.page_size})
                link["Link"] = f'<{hub.url}{self.path_only[len(hub.prefix):]}?{query}>; rel="next"'
            return self.reply_json(entries[begin:begin + hub.page_size], **link)
        siblings = [{"rfilename": path} for path in sorted(repository.files)]
        return self.reply_json({"id": name, "modelId": name, "sha": repository.commit, "siblings": siblings, "tags": [],
                                "private": False, "gated": "manual" if repository.gated else False, "downloads": 1, "likes": 1})

    def serve_file(self, hub, repository, name, path, is_final):
        if path not in repository.files:
            return self.reply(404, X_Error_Code="EntryNotFound", X_Error_Message="Entry not found")
        content, etag = repository.files[path], f'"{repository.etag(path)}"'
        if repository.is_large(path):
            return self.reply(302, X_Repo_Commit=repository.commit, X_Linked_Etag=etag, X_Linked_Size=len(content),
                              ETag='"other"', Location=f"{hub.store_url}/objects/{repository.etag(path)}?signature=a%2Fb")
        if not is_final:  # the real hub answers small files from a cache, with a relative redirect
            where = f"{hub.prefix}/api/resolve-cache/{name}/{repository.commit}/{urllib.parse.quote(path)}"
            return self.reply(307, X_Repo_Commit=repository.commit, X_Linked_Etag=etag, X_Linked_Size=len(content), ETag=etag,
                              Location=where)
        return self.reply_content(content, X_Repo_Commit=repository.commit, ETag=etag)


class _StoreHandler(_Handler):
    is_store = True

    def serve(self, hub):
        digest = self.path_only.rsplit("/", 1)[-1]
        for repository in hub.repositories.values():
            for path, content in repository.files.items():
                if repository.is_large(path) and repository.etag(path) == digest:
                    return self.reply_content(content, ETag=f'"{digest}"')
        return self.reply(404)


class FakeHub:
    """Runs until close(). `certificate` and `key` are files: with them both servers speak TLS as `localhost`."""

    def __init__(self, repositories, token="", certificate=None, key=None, prefix=""):
        self.repositories, self.token, self.prefix = repositories, token, prefix
        self.faults = []  # functions that get the handler; True: the request was answered
        self.tree = None  # a function that gets a repository and returns another list of its files
        self.page_size = 1000
        self.requests, self.store_requests, self.lock = [], [], threading.Lock()
        self._servers = []
        for handler in (_HubHandler, _StoreHandler):
            server = _Server(("127.0.0.1", 0), handler)
            server.hub = self
            if certificate:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(certificate, key)
                server.socket = context.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            self._servers.append(server)
        scheme, host = ("https", "localhost") if certificate else ("http", "127.0.0.1")
        self.url = f"{scheme}://{host}:{self._servers[0].server_address[1]}{prefix}"
        self.store_url = f"{scheme}://{host}:{self._servers[1].server_address[1]}"

    def close(self):
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def asked_for(self, path):
        """How often the content of a large file was asked for, and from which bytes on."""
        digests = [repository.etag(path) for repository in self.repositories.values() if path in repository.files]
        return [headers.get("range", "") for method, url, headers in self.store_requests
                if method == "GET" and any(digest in url for digest in digests)]
