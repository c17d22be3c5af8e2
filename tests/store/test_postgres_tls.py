"""TLS to a real server, with an authority of the test's own: what gets in, and the words for what does not."""

from __future__ import annotations

import datetime
import ipaddress
import os
import pwd
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.store.ports import StoreError
from relay.store.postgres import store as postgres_store
from relay.store.postgres.address import read_address
from tests import postgres
from tests.outside import eventually

DAY = datetime.timedelta(days=1)


@dataclass
class Authority:
    """Issues certificates into `folder`."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, folder: Path, name: str) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        made = cls(folder, key, _signed(name, key, None, name, key, [], timedelta=DAY))
        made.path.write_bytes(made.certificate.public_bytes(serialization.Encoding.PEM))
        return made

    @property
    def path(self) -> Path:
        name = self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        return self.folder / f"{name}.pem"

    def issue(self, name: str, *hosts: str, ends: datetime.timedelta = DAY) -> tuple[Path, Path]:
        """The files of a certificate, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.path.stem
        made = _signed(name, key, self.certificate, issuer, self.key, hosts, timedelta=ends)
        certificate, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        private.chmod(0o600)
        return certificate, private


def _signed(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    by: x509.Certificate | None,
    issuer: str,
    signer: ec.EllipticCurvePrivateKey,
    hosts: Any,
    *,
    timedelta: datetime.timedelta,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 10 * DAY)
        .not_valid_after(now + timedelta)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
    )
    if hosts:
        names = [
            x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
            for host in hosts
        ]
        made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return made.sign(signer, hashes.SHA256())


@dataclass
class Tls:
    """A server that speaks TLS on `port`, at localhost only."""

    server: postgres.Server
    port: int
    ours: Authority
    other: Authority
    database: str

    def dsn(self, more: str = "", *, host: str = "localhost", user: str = "relay") -> str:
        return f"postgres://{user}:s3cret@{host}:{self.port}/{self.database}{more}"

    async def serve(self, certificate: Path, key: Path) -> None:
        """Let the server show this certificate."""
        for name, file, mode in (("server.crt", certificate, 0o644), ("server.key", key, 0o600)):
            place = self.server.data / name
            shutil.copy(file, place)
            place.chmod(mode)
            if self.server.user:
                os.chown(place, *pwd.getpwnam(self.server.user)[2:4])
        await self.set("ssl", "on")

    async def set(self, name: str, value: str) -> None:
        admin = await asyncpg.connect(self.server.dsn("postgres"))
        try:
            await admin.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            await self.reload(admin)
        finally:
            await admin.close()

    async def reload(self, admin: Any) -> None:
        """Have the server read its files anew: its main process does so before its sessions do."""
        before = await admin.fetchval("SELECT pg_conf_load_time()")
        await admin.execute("SELECT pg_reload_conf()")

        async def read() -> bool:
            return bool(await admin.fetchval("SELECT pg_conf_load_time()") != before)

        await eventually(read, "the server has read its files", every_s=0.01)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    postgres.server()  # skips where there is none
    found = postgres.binaries()
    assert found is not None
    port = _free_port()
    settings = {**postgres.SETTINGS, "listen_addresses": "127.0.0.1", "port": str(port)}
    server = postgres.make_server(found, settings)
    try:
        folder = tmp_path_factory.mktemp("tls")
        ours, other = Authority.make(folder, "ours"), Authority.make(folder, "other")
        yield Tls(server, port, ours, other, server.new_database())
    finally:
        server.end()


@pytest.fixture
async def tls(running: Tls) -> AsyncIterator[Tls]:
    await running.serve(*running.ours.issue("localhost", "localhost"))
    yield running
    await running.set("ssl", "on")


async def _opens(dsn: str) -> Any:
    """What the server says of a store's connection at this address."""
    store = await postgres_store.open_store(read_address(dsn, "RELAY_X"), [events.FOLDER], connect_s=10)
    try:
        await store.write(lambda tx: events.append(tx, NewEvent("test", Lane("room", "test"))))
        async with store._open.lent(store._open.short) as connection:
            return await connection.fetchrow(
                "SELECT ssl, version, client_dn FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            )
    finally:
        await store.close()


async def _refused(dsn: str, told: str) -> None:
    with pytest.raises(StoreError, match=told) as refused:
        await _opens(dsn)
    text = str(refused.value)
    assert "\n" not in text and "s3cret" not in text
    assert text.startswith("localhost") or text.startswith("127.0.0.1")


async def test_a_server_of_our_authority_is_let_in_by_its_name(tls: Tls) -> None:
    row = await _opens(tls.dsn(f"?sslmode=verify-full&sslrootcert={tls.ours.path}"))
    assert row["ssl"] and row["version"] in ("TLSv1.2", "TLSv1.3")


async def test_a_wrong_authority_is_refused(tls: Tls) -> None:
    for mode in ("verify-ca", "verify-full"):
        dsn = tls.dsn(f"?sslmode={mode}&sslrootcert={tls.other.path}")
        await _refused(dsn, "certificate is of no authority .*sslrootcert=/PATH/authority.pem")


async def test_a_wrong_host_name_is_refused(tls: Tls) -> None:
    checked = f"?sslmode=verify-full&sslrootcert={tls.ours.path}"
    told = "certificate is not for the host that the address names"
    await _refused(tls.dsn(checked, host="127.0.0.1"), told)
    await tls.serve(*tls.ours.issue("elsewhere", "db.example"))
    await _refused(tls.dsn(checked), told)
    assert (await _opens(tls.dsn(checked.replace("full", "ca"))))["ssl"], "which asks for the authority alone"
    await tls.serve(*tls.ours.issue("by-number", "127.0.0.1"))
    assert (await _opens(tls.dsn(checked, host="127.0.0.1")))["ssl"]


async def test_a_certificate_that_is_over_is_refused(tls: Tls) -> None:
    await tls.serve(*tls.ours.issue("old", "localhost", ends=-DAY))
    await _refused(
        tls.dsn(f"?sslmode=verify-full&sslrootcert={tls.ours.path}"), "is over: have it issued anew"
    )


async def test_a_server_without_tls_is_refused(tls: Tls) -> None:
    await tls.set("ssl", "off")
    for more in ("?sslmode=require", f"?sslmode=verify-full&sslrootcert={tls.ours.path}"):
        await _refused(tls.dsn(more), r"offers no TLS.*ssl = on.*Over a network")
    assert not (await _opens(tls.dsn()))["ssl"], "without sslmode nothing is asked"


async def test_a_server_may_want_the_clients_certificate(tls: Tls) -> None:
    hba = tls.server.data / "pg_hba.conf"
    before = hba.read_text()
    (tls.server.data / "clients.pem").write_bytes(tls.ours.path.read_bytes())
    admin = await asyncpg.connect(tls.server.dsn("postgres"))
    try:
        await admin.execute("CREATE ROLE certified LOGIN SUPERUSER")
        hba.write_text(
            f"hostssl all certified 127.0.0.1/32 cert\nhostnossl all certified all reject\n{before}"
        )
        await tls.set("ssl_ca_file", "clients.pem")
        checked = f"?sslmode=verify-full&sslrootcert={tls.ours.path}"
        mine, key = tls.ours.issue("certified")
        row = await _opens(tls.dsn(f"{checked}&sslcert={mine}&sslkey={key}", user="certified"))
        assert row["client_dn"] == "/CN=certified"
        wants = r"pg_hba\.conf: it may want TLS .*a client's certificate \(sslcert and sslkey\)"
        await _refused(tls.dsn(checked, user="certified"), wants)
        await _refused(tls.dsn("?sslmode=disable", user="certified"), wants)
        theirs, their_key = tls.ours.issue("somebody")
        await _refused(
            tls.dsn(f"{checked}&sslcert={theirs}&sslkey={their_key}", user="certified"),
            "does not let this user in",
        )
        await _refused(
            tls.dsn(f"{checked}&sslcert={mine}&sslkey={their_key}", user="certified"), "TLS failed .*sslkey"
        )
    finally:
        hba.write_text(before)
        await tls.reload(admin)
        await admin.close()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            "sslmode=verify-full&sslrootcert={here}/no.pem",
            "`sslrootcert` in RELAY_X names cannot be read: No such file",
        ),
        ("sslmode=verify-full&sslrootcert=authority.pem", "`sslrootcert` in RELAY_X must be the whole path"),
        ("sslmode=verify-full&sslrootcert=system", "`sslrootcert` in RELAY_X must be the whole path"),
        ("sslmode=require&sslcert={here}", "`sslcert` in RELAY_X names cannot be read: .* folder"),
        ("sslmode=verify-full", "names no authority: add `&sslrootcert="),
        ("sslmode=verify-ca", "names no authority"),
    ],
)
def test_an_address_that_names_no_file_of_a_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, told: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(StoreError, match=told) as refused:
        read_address(f"postgres://ann:s3cret@db/room?{more.format(here=tmp_path)}", "RELAY_X")
    assert "s3cret" not in str(refused.value)


def test_the_authority_of_the_users_own_folder_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "root.crt").write_text("one")
    assert read_address("postgres://ann@db/room?sslmode=verify-full", "RELAY_X").place == "db/room"
