"""Receipts of the gate, with real keys of ssh-keygen: made, changed by one byte, chained, signed, and judged again."""

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_harness.cli.main import main
from agent_harness.gate import receipt
from agent_harness.kernel.digest import sha256
from agent_harness.testing import CommandResult, run_in_process
from agent_harness.testing.repo import Repo

FILES = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    ".gitignore": "__pycache__/\n",
    "src/calc.py": "def add(a, b):\n    return a + b\n",
    "tests/test_add.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
}
ELSEWHERE = "import os\n\n\ndef test_elsewhere():\n    assert os.path.exists({!r})\n"


def harness(repo: Path, *words: str, **environ: str) -> CommandResult:
    return run_in_process(main, "harness", *words, cwd=repo, environ=environ or None)


def keygen(path: Path, passphrase: str = "") -> Path:
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "somebody", "-f", str(path)]
    subprocess.run(words, check=True)
    return path


def documents(repo: Repo, number: int) -> Repo:
    """Commit a change of documents only, which the gate accepts without a run."""
    return repo.write("README.md", f"# calc {number}\n").commit("Readme")


@pytest.fixture(scope="module")
def tested(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Repo, Path, Path]]:
    """Return a repository, the signed receipt of a change of it, and a file that one of its tests needs."""
    base = tmp_path_factory.mktemp("tested")
    (service := base / "service").write_text("")
    repo = Repo.with_files(base / "project", {**FILES, "tests/test_else.py": ELSEWHERE.format(str(service))})
    repo.git("switch", "-q", "-c", "work")
    repo.write("src/calc.py", f"# sums\n{FILES['src/calc.py']}").commit("Comment")
    made = harness(repo.path, "gate", "--receipt", str(base / "1.json"), "--sign", str(keygen(base / "key")))
    assert made.code == 0, made
    yield repo, base / "1.json", service


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    found = Repo.with_files(tmp_path / "project", FILES)
    found.git("switch", "-q", "-c", "work")
    return documents(found, 1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Repo, bytes]:
    """Return a repository and the receipt of a change of it, for tests that change only a copy of the receipt."""
    base = tmp_path_factory.mktemp("made")
    found = Repo.with_files(base / "project", FILES)
    found.git("switch", "-q", "-c", "work")
    return documents(found, 1), gate(found, base / "1.json").read_bytes()


@pytest.fixture
def copy(made: tuple[Repo, bytes], tmp_path: Path) -> tuple[Repo, Path]:
    (tmp_path / "1.json").write_bytes(made[1])
    return made[0], tmp_path / "1.json"


def gate(repo: Repo, path: Path, *words: str) -> Path:
    made = harness(repo.path, "gate", "--receipt", str(path), *words)
    assert made.code == 0, made
    return path


def audit(repo: Repo, *words: str | Path) -> tuple[int, str]:
    ran = harness(repo.path, "audit", *map(str, words))
    return ran.code, ran.text


def forged(path: Path, **members: Any) -> Path:
    """Write members into a receipt as somebody would who knows the format."""
    return sealed(path, json.loads(path.read_bytes()) | members)


def sealed(path: Path, found: dict[str, Any]) -> Path:
    found["digest"] = sha256(receipt.canonical(found, "digest"))
    path.write_bytes(receipt.canonical(found) + b"\n")
    return path


# ---- what a receipt holds


def test_a_receipt_holds_what_was_judged_and_how(tested: tuple[Repo, Path, Path]) -> None:
    repo, path, _ = tested
    found = json.loads(path.read_bytes())
    for side, name in (("base", "main"), ("head", "work")):
        assert found[side] == {"commit": repo.git("rev-parse", name), "tree": repo.git("rev-parse", f"{name}^{{tree}}")}
    assert found["repository"] == {"roots": [repo.git("rev-parse", "main")]}
    assert (found["verdict"], found["shown"], found["previous"]) == ("accepted", "not shown", [])
    (check,) = found["checks"]
    assert (check["command"], check["found_in"]) == ("python3 -m pytest", "pyproject.toml")
    ids = ["tests/test_add.py::test_add", "tests/test_else.py::test_elsewhere"]
    assert check["tests"] == [{"base": "passed", "head": "passed", "ids": ids}]
    assert [(each["step"], each["on"], each["exit"]) for each in check["runs"]] == [
        ("before", "base", 0),
        ("suite", "head", 0),
    ]
    assert {len(each["log_sha256"]) for each in check["runs"]} == {64}
    assert set(found["tools"]) == {"git", "harness", "python"}


def test_a_receipt_shows_no_secret(repo: Repo, tmp_path: Path) -> None:
    repo.write("src/calc.py", "# sums\n").commit("Comment")
    path = gate(repo, tmp_path / "1.json", "--check", "API_TOKEN=hunter2hunter2 true")
    assert "hunter2" not in path.read_text()
    assert audit(repo, path, "--rerun", "--check", "API_TOKEN=hunter2hunter2 true")[0] == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--receipt", "../1.json"), 4, "../1.json is not a new file *.json in a folder that exists"),
        (("--receipt", "../nowhere/2.json"), 4, "is not a new file"),
        (("--receipt", "../2.txt"), 4, "is not a new file"),
        (("--sign", "../key"), 2, "--sign needs --receipt"),
        (("--receipt", "../2.json", "--sign", "../nowhere"), 4, "the key ../nowhere cannot sign: "),
        (("--receipt", "../2.json", "--sign", "../locked"), 4, "incorrect passphrase"),
    ],
)
def test_what_cannot_be_written_or_signed_is_said_before_anything_runs(
    repo: Repo, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    (tmp_path / "1.json").write_text("mine")
    keygen(tmp_path / "locked", "a passphrase")
    ran = harness(repo.path, "gate", *words)
    assert (ran.code, said in ran.err, ran.out, ran.err.count("\n")) == (code, True, "", 2), ran
    assert ((tmp_path / "1.json").read_text(), (tmp_path / "2.json").exists()) == ("mine", False)


# ---- one byte


def test_each_changed_byte_is_found(tested: tuple[Repo, Path, Path], tmp_path: Path) -> None:
    repo, path, _ = tested
    whole, chance = path.read_bytes(), random.Random(31)

    def other(at: int) -> bytes:
        return bytes([(whole[at] + chance.randrange(1, 256)) % 256])

    changed = [whole[:at] + other(at) + whole[at + 1 :] for at in chance.choices(range(len(whole)), k=1000)]
    changed += [
        whole[:at] + bytes([chance.randrange(256)]) + whole[at:] for at in chance.choices(range(len(whole)), k=300)
    ]
    changed += [whole[:at] + whole[at + 1 :] for at in chance.choices(range(len(whole)), k=300)]
    changed += [whole[:at] for at in chance.choices(range(len(whole)), k=200)]
    changed += [whole + b"\n", whole[:-1], b" " + whole, b"\xef\xbb\xbf" + whole, whole.replace(b",", b", ", 1), b""]
    changed += [whole.replace(rb"\n", rb"\r", 1), whole.swapcase()]
    for content in changed:
        with pytest.raises(ValueError, match=r"\w"):
            receipt.read(content)
    for content in chance.sample(changed, 5):
        (tmp_path / "1.json").write_bytes(content)
        assert audit(repo, tmp_path / "1.json")[0] == 1
    assert receipt.read(whole)["verdict"] == "accepted"


# ---- signature


def test_the_signature_is_checked(repo: Repo, tmp_path: Path) -> None:
    key, other = keygen(tmp_path / "key"), keygen(tmp_path / "other")
    path = gate(repo, tmp_path / "1.json", "--sign", str(key))
    for name in (key, other):
        public = name.with_suffix(".pub").read_text()
        (tmp_path / f"by-{name.name}").write_text(f"{name.name}@localhost {public}")
    code, said = audit(repo, path)
    assert (code, "signed by key SHA256:" in said, "whose owner is not checked" in said) == (0, True, True), said
    code, said = audit(repo, path, "--signers", tmp_path / "by-key")
    assert (code, "signed by key@localhost with key SHA256:" in said) == (0, True), said
    assert audit(repo, path, "--signers", tmp_path / "by-other")[0] == 1
    assert audit(repo, path, "--signers", tmp_path / "nowhere")[0] == 4
    code, said = audit(repo, forged(path, verdict="rejected"))
    assert (code, "the signature does not hold" in said) == (1, True), said
    unsigned = gate(repo, tmp_path / "2.json")
    code, said = audit(repo, unsigned)
    assert (code, "the receipt is not signed" in said) == (0, True), said
    assert audit(repo, unsigned, "--signers", tmp_path / "by-key")[0] == 1


def test_the_documented_lines_check_a_signature(tested: tuple[Repo, Path, Path], tmp_path: Path) -> None:
    page = Path(__file__).parents[2].joinpath("docs/receipts.md").read_text()
    lines = [line.removeprefix("$ ") for line in page.splitlines() if line.startswith(("$ python3", "$ ssh-keygen"))]
    shutil.copy(tested[1], tmp_path / "receipt.json")
    done = subprocess.run(["sh", "-ec", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, 'Good "agent-harness-receipt" signature' in done.stdout) == (0, True), done


def test_an_agent_signs_for_a_key(repo: Repo, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    key, socket = keygen(tmp_path / "key"), str(tmp_path_factory.getbasetemp() / "agent")
    with subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.PIPE) as agent:
        try:
            assert agent.stdout is not None
            agent.stdout.readline()
            subprocess.run(["ssh-add", "-q", str(key)], env={"SSH_AUTH_SOCK": socket}, check=True)
            key.unlink()
            words = ("gate", "--receipt", str(tmp_path / "1.json"), "--sign", str(key.with_suffix(".pub")))
            assert harness(repo.path, *words, SSH_AUTH_SOCK=socket).code == 0
        finally:
            agent.terminate()
    assert "signed by key SHA256:" in audit(repo, tmp_path / "1.json")[1]


# ---- chain


def test_a_receipt_that_was_removed_is_found(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    paths = [gate(documents(repo, number), tmp_path / f"kept/{number}.json") for number in (2, 3, 4)]
    (tmp_path / "kept/link.json").symlink_to(paths[0])
    code, said = audit(repo, *paths)
    assert (code, said.count("chain: follows ")) == (0, 2), said
    code, said = audit(repo, paths[2])
    assert (code, "follows a receipt that was not given" in said) == (0, True), said
    for missing in (0, 1):
        left = [each for each in paths if each != paths[missing]]
        code, said = audit(repo, *left)
        lost = sha256(paths[missing].read_bytes())
        assert (code, f"SHA-256 {lost}" in said) == (1, True), said


def test_two_that_follow_the_same_are_both_followed_by_the_next(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    first = gate(repo, tmp_path / "kept/1.json")
    two, three = tmp_path / "2.json", tmp_path / "kept/3.json"
    shutil.copy(gate(documents(repo, 2), tmp_path / "kept/2.json"), two)
    (tmp_path / "kept/2.json").unlink()
    gate(documents(repo, 3), three)
    shutil.move(two, tmp_path / "kept/2.json")  # written at the same time as the third
    last = gate(documents(repo, 4), tmp_path / "kept/4.json")
    code, said = audit(repo, first, tmp_path / "kept/2.json", three, last)
    assert (code, said.count("follows ")) == (0, 4), said


# ---- commits


def test_the_commits_are_those_of_the_repository(repo: Repo, tmp_path: Path) -> None:
    path = gate(repo, tmp_path / "1.json")
    base, head = (json.loads(path.read_bytes())[side] for side in ("base", "head"))
    repo.git("clone", "-q", str(repo.path), str(tmp_path / "clone"))
    repo.git("clone", "-q", "--single-branch", "--branch", "main", f"file://{repo.path}", str(tmp_path / "old"))
    assert audit(repo, path, "--repo", tmp_path / "clone")[0] == 0
    code, said = audit(repo, path, "--repo", tmp_path / "old")
    assert (code, f"the head {head['commit']} is not in this repository" in said) == (1, True), said
    assert audit(repo, path, "--repo", tmp_path)[0] == 4
    code, said = audit(repo, forged(path, base=head, head=base))
    assert (code, "the base is not an ancestor of the head" in said) == (1, True), said
    code, said = audit(repo, forged(path, base=base, head=head | {"tree": base["tree"]}))
    assert (code, f"has the tree {head['tree']}" in said) == (1, True), said
    assert audit(repo, forged(path, head={"commit": head["tree"], "tree": head["tree"]}))[0] == 1


# ---- once more


def test_the_verdict_comes_out_again_in_another_clone_or_the_difference_is_named(
    tested: tuple[Repo, Path, Path], tmp_path: Path
) -> None:
    repo, path, service = tested
    repo.git("clone", "-q", str(repo.path), str(tmp_path / "clone"))
    code, said = audit(repo, path, "--rerun", "--repo", tmp_path / "clone")
    assert (code, "each test came out the same" in said) == (0, True), said
    service.unlink()
    code, said = audit(repo, path, "--rerun")
    service.write_text("")
    for side in ("base", "head"):
        assert f"tests/test_else.py::test_elsewhere on the {side}: failed, and in the receipt passed" in said
    assert (code, "test_add on" in said) == (1, False), said


def test_a_command_of_a_receipt_is_run_only_if_a_person_repeats_it(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    command = f"touch {tmp_path}/kept/ran"
    repo.write("src/calc.py", "# sums\n").commit("Comment")
    path = forged(gate(repo, tmp_path / "1.json", "--check", "true"), terms={**TERMS, "checks": [command]})
    for words in ((), ("--check", "true")):
        code, said = audit(repo, path, "--rerun", *words)
        assert (code, f"--rerun --check '{command}'" in said) == (4, True), said
        assert not (tmp_path / "kept/ran").exists()
    path = forged(path, terms={**TERMS, "checks": ["true"]})
    assert audit(repo, path, "--rerun", "--check", "true")[0] == 0


def test_a_receipt_that_claims_too_much_is_found(repo: Repo, tmp_path: Path) -> None:
    repo.write("src/calc.py", "# sums\n").commit("Comment")
    path = gate(repo, tmp_path / "1.json", "--check", "true")
    code, said = audit(repo, forged(path, shown="proven"), "--rerun", "--check", "true")
    assert (code, "shown: not shown, and in the receipt proven" in said) == (1, True), said


# ---- receipts of strangers

TERMS: dict[str, Any] = {"checks": [], "tests": [], "allow": [], "require": "", "minutes": 30.0}
LONE: dict[str, Any] = {"command": "x", "found_in": "x", "tests": [{"base": "passed", "ids": []}], "flaky": []}


@pytest.mark.parametrize(
    "members",
    [
        {"head": {"commit": "--all", "tree": "HEAD"}},
        {"head": "HEAD"},
        {"head": None},
        {"terms": {**TERMS, "minutes": 1e308}},
        {"terms": {**TERMS, "minutes": True}},
        {"terms": {**TERMS, "allow": [7]}},
        {"terms": {}},
        {"checks": [LONE]},
        {"checks": {"command": "x"}},
        {"findings": [{"code": 1}]},
        {"previous": "x"},
        {"previous": [None]},
        {"source": "record", "terms": 5},
        {"source": "other"},
        {"source": ["gate"]},
        {"version": 2},
        {"version": 10**500},
        {"signature": 5},
        {"terms": {**TERMS, "require": "anything"}},
    ],
    ids=str,
)
def test_a_hostile_receipt_is_refused(copy: tuple[Repo, Path], members: dict[str, Any]) -> None:
    code, said = audit(copy[0], forged(copy[1], **members), "--rerun")
    assert (code, "differs       form: " in said) == (1, True), said


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace('"at"', '"at":"twice","at"', 1),
        lambda text: "[" * 100_000,
        lambda text: text[:-2] + ',"x":' + "[" * 90_000 + "]" * 90_000 + "}\n",
        lambda text: text[:-2] + ',"x":1e999}\n',
        lambda text: text[:-2] + ',"x":' + "9" * 9_000 + "}\n",
        lambda text: text[:-2] + ',"x":NaN}\n',
        lambda text: text[:-2] + ',"x":"\\ud800"}\n',
        lambda text: "{}\n",
        lambda text: "null\n",
        lambda text: "\0",
    ],
)
def test_text_that_is_no_receipt_is_refused(copy: tuple[Repo, Path], spoil: Callable[[str], str]) -> None:
    repo, path = copy
    path.write_text(spoil(path.read_text()))
    code, said = audit(repo, path)
    assert (code, "differs       form: " in said) == (1, True), said


def test_what_a_receipt_says_cannot_steer_the_terminal(copy: tuple[Repo, Path]) -> None:
    path = forged(copy[1], why="\x1b[2J\u202eok")
    assert not {"\x1b", "\u202e"} & set(audit(copy[0], path)[1])


def test_a_file_that_cannot_be_read_is_one_line(copy: tuple[Repo, Path], tmp_path: Path) -> None:
    repo, path = copy
    answer = harness(repo.path, "audit", "--json", str(path)).json
    parts = ["form", "signature", "chain", "commits"]
    assert (answer["ok"], [row["part"] for row in answer["receipts"][0]["audit"]]) == (True, parts)
    for path in (tmp_path / "nowhere.json", tmp_path):
        ran = harness(repo.path, "audit", str(path))
        assert (ran.code, ran.out, str(path) in ran.err) == (4, "", True), ran
