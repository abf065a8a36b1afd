"""Check labels in a real Label Studio: choose an audit, import the tasks, annotate, export, calibrate.

`make test-label-studio` runs this. The server listens on the loopback interface only and keeps its data in a
temporary folder. The argument is the program ``label-studio``.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import nacp
from nacp.paper import twins

NAMES = ["plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck & trailer"]
TOKEN = "0123456789abcdef0123456789abcdef01234567"  # of a server that lives for a minute


def run(*arguments: str) -> str:
    """Run the command line of nacp."""
    command = [str(Path(sys.executable).parent / "nacp"), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Server:
    """A Label Studio that was started for this check."""

    def __init__(self, program: str, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        settings = {
            "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
            "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
            "LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK": "true",
            "COLLECT_ANALYTICS": "false",
            "SENTRY_DSN": "",
            "FRONTEND_SENTRY_DSN": "",
        }
        user = ["--username", "a@localhost.org", "--password", "a long password 1", "--user-token", TOKEN]
        options = ["--no-browser", "--internal-host", "127.0.0.1", "--port", str(port), *user]
        with (folder / "log.txt").open("w") as log:
            self.process = subprocess.Popen(
                [program, "start", *options], env=os.environ | settings, stdout=log, stderr=log
            )

    def wait(self) -> None:
        """Wait until the server answers."""
        for _ in range(180):
            if self.process.poll() is not None:
                raise SystemExit("Label Studio did not start")
            with suppress(OSError):
                self.ask("/api/projects/")
                return
            time.sleep(1)
        raise SystemExit("Label Studio does not answer")

    def ask(self, path: str, body: object = None) -> object:
        """Send a request and return the answer."""
        headers = {"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())


def main(program: str) -> None:
    """Compare the calibration from exports with the one from the true labels themselves."""
    probs, true = twins.simulate("cifar10", n=2000, random_state=0)
    probs = probs.astype(float)  # so that the text below is exact
    noisy = nacp.UniformNoise(0.2).sample(true, 10, random_state=0)
    ids = [f"img-{i:04}" for i in range(len(probs))]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        table = [
            ",".join(["id", *NAMES]),
            *(f"{i},{','.join(map(str, p))}" for i, p in zip(ids, probs, strict=True)),
        ]
        Path("probs.csv").write_text("\n".join(table) + "\n")
        labels = ["id,label", *(f"{i},{NAMES[y]}" for i, y in zip(ids, noisy, strict=True))]
        Path("labels.csv").write_text("\n".join(labels) + "\n")
        print(run("audit", "choose", "probs.csv", "labels.csv", "--budget", "100", "--to", "label-studio"))
        tasks = json.loads(Path("to-check.json").read_text())
        assert all(set(task["data"]) == {"row", "id", "plan"} for task in tasks), "the check is blind"
        server = Server(program, folder)
        try:
            server.wait()
            interface = Path("to-check.xml").read_text()
            project = server.ask("/api/projects/", {"title": "audit", "label_config": interface})["id"]
            server.ask(f"/api/projects/{project}/import", tasks)
            listed = server.ask(f"/api/tasks/?project={project}&page_size=1000&fields=all")["tasks"]
            assert len(listed) == 100, len(listed)
            for i, task in enumerate(listed):
                row = task["data"]["row"]
                value = {"choices": ["?" if i == 0 else NAMES[true[row]]]}
                result = {"type": "choices", "from_name": "checked", "to_name": "shown0", "value": value}
                server.ask(f"/api/tasks/{task['id']}/annotations/", {"result": [result]})
            first = listed[0]["data"]["row"]
            for kind in ("JSON", "JSON_MIN"):
                export = server.ask(f"/api/projects/{project}/export?exportType={kind}")
                Path(f"{kind}.json").write_text(json.dumps(export))
                run(
                    "calibrate",
                    "probs.csv",
                    "labels.csv",
                    "--audit",
                    f"{kind}.json",
                    "-o",
                    f"cal-{kind}.json",
                )
                found = nacp.load(f"cal-{kind}.json")
                plan = nacp.choose_audit(probs, noisy, budget=100)
                clean = plan.rows, ["?" if row == first else true[row] for row in plan.rows.tolist()]
                wanted = nacp.calibrate(probs, noisy, clean=clean, audit=plan)
                assert (found.threshold, found.checked) == (wanted.threshold, 100), (kind, found, wanted)
                print(
                    f"{kind}: threshold {found.threshold:.6g} from 100 labels, as from the labels themselves"
                )
        finally:
            server.process.terminate()
            server.process.wait(timeout=30)


if __name__ == "__main__":
    main(sys.argv[1])
