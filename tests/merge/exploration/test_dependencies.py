"""Which dependencies the manifests of each language name."""

from __future__ import annotations

import pytest

from relay.merge.exploration.dependencies import dependencies, is_manifest

FILES = {
    "requirements-dev.txt": (b"# why\nRedis>=4\nhiredis ; extra\n-r other.txt\n", {"redis", "hiredis"}),
    "pyproject.toml": (
        b'[project]\ndependencies = ["aio_http>=3", "Redis[hiredis]"]\n'
        b'[project.optional-dependencies]\nx = ["numpy"]\n[dependency-groups]\ndev = ["pytest"]\n'
        b'[tool.poetry.dependencies]\npython = "^3.11"\nrich = "*"\n',
        {"aio-http", "redis", "numpy", "pytest", "rich"},
    ),
    "web/package.json": (
        b'{"dependencies": {"preact": "1"}, "devDependencies": {"@types/node": "1"}}',
        {"preact", "@types/node"},
    ),
    "Cargo.toml": (
        b'[dependencies]\nserde = "1"\n[dev-dependencies]\nrand = "1"\n'
        b'[target."cfg(unix)".dependencies]\nlibc = "1"\n',
        {"serde", "rand", "libc"},
    ),
    "go.mod": (
        b"module x.org/y\n\ngo 1.21\n\nrequire (\n\tgithub.com/a/b v1.2.3\n\tgopkg.in/c v1.0.0 // indirect\n)\n"
        b"require golang.org/x/net v0.1.0\n",
        {"github.com/a/b", "gopkg.in/c", "golang.org/x/net"},
    ),
    "pom.xml": (
        b"<dependency>\n<groupId>org.a</groupId>\n<artifactId>b</artifactId>\n</dependency>",
        {"org.a:b"},
    ),
    "build.gradle.kts": (
        b'implementation("org.a:b:1.0")\ntestImplementation("org.c:d:2")\n// implementation("e:f:1")\n',
        {"org.a:b", "org.c:d"},
    ),
}


@pytest.mark.parametrize("path", FILES)
def test_a_manifest_names_its_dependencies(path: str) -> None:
    content, names = FILES[path]
    assert is_manifest(path)
    assert {name for _, name in dependencies({path: content})} == names


def test_a_dependency_of_two_files_is_one_and_of_two_ecosystems_two() -> None:
    files = {
        "requirements.txt": b"redis\n",
        "pyproject.toml": b'[project]\ndependencies = ["Redis>=4"]\n',
        "package.json": b'{"dependencies": {"redis": "1"}}',
    }
    assert dependencies(files) == {("python", "redis"), ("npm", "redis")}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"dependencies": 3}'])
def test_a_manifest_that_cannot_be_read_names_none(content: bytes) -> None:
    assert dependencies({"package.json": content, "Cargo.toml": content}) == set()
    assert not is_manifest("src/main.py")
