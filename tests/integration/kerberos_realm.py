"""A Kerberos realm for tests: a KDC of MIT Kerberos with its own files and port, principals, key tables, tickets."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from barnabas_cli.local.layout import HOST
from tests.integration.running_cluster import reserve_ports

REALM = "BARNABAS.TEST"
SERVICE = "kafka/localhost"
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_READY_S_MAX = 60


def need_kerberos() -> None:
    """Skip the test where MIT Kerberos or python-gssapi is not there."""
    missing = [program for program in _PROGRAMS if shutil.which(program, path=_PATH) is None]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: `make kerberos` installs krb5-kdc, krb5-admin-server and krb5-user")
    if importlib.util.find_spec("gssapi") is None:
        pytest.skip("python-gssapi is not installed: `make kerberos` compiles it")


class KerberosRealm:
    """Use it as a context manager. `environment` is for processes of the realm, servers and clients."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.krb5_conf = directory / "krb5.conf"
        self.environment = {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": str(directory / "no-tickets.ccache"),
        }
        self._cleanup = ExitStack()

    def __enter__(self) -> KerberosRealm:
        port, lock = reserve_ports()
        self._cleanup.enter_context(lock)
        self._write_config(port)
        self.run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
        self.add_principal(SERVICE)
        log = self._cleanup.enter_context((self.directory / "kdc.out").open("wb"))
        kdc = subprocess.Popen(
            [self._path("krb5kdc"), "-n"],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        self._cleanup.callback(kdc.wait)
        self._cleanup.callback(kdc.kill)
        self._await_kdc(port)
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def run(self, program: str, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [self._path(program), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env={**os.environ, **self.environment},
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def add_principal(self, principal: str, *options: str) -> None:
        """Add one with a random key; `options` are those of `addprinc`."""
        self._administrate(f"addprinc -randkey {' '.join(options)} {principal}")

    def keytab(self, principal: str, name: str = "") -> Path:
        """Return a key table with the principal's key, which stays as it is."""
        path = self.directory / f"{name or principal.replace('/', '-')}.keytab"
        path.unlink(missing_ok=True)
        self._administrate(f"ktadd -norandkey -k {path} {principal}")
        return path

    def change_key(self, principal: str) -> None:
        self._administrate(f"cpw -randkey -keepold {principal}")

    def ticket_cache(self, principal: str, *options: str) -> str:
        """Return a new cache with a ticket of the principal's."""
        path = self.directory / f"{principal.replace('/', '-')}.ccache"
        keytab = self.keytab(principal)
        self.run("kinit", *options, "-c", str(path), "-k", "-t", str(keytab), principal)
        return str(path)

    def _administrate(self, query: str) -> None:
        printed = self.run("kadmin.local", "-r", REALM, "-q", query)
        assert "created" in printed or "added" in printed or "changed" in printed or "randomized" in printed, printed

    def _path(self, program: str) -> str:
        found = shutil.which(program, path=_PATH)
        assert found is not None, program
        return found

    def _write_config(self, port: int) -> None:
        directory = self.directory
        self.krb5_conf.write_text(
            f"""[libdefaults]
  default_realm = {REALM}
  dns_lookup_kdc = false
  dns_lookup_realm = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
  default_rcache_name = file2:{directory}/replays
[realms]
  {REALM} = {{
    kdc = {HOST}:{port}
  }}
[domain_realm]
  localhost = {REALM}
[logging]
  kdc = FILE:{directory}/kdc.log
"""
        )
        (directory / "kdc.conf").write_text(
            f"""[kdcdefaults]
  kdc_listen = ""
  kdc_tcp_listen = {HOST}:{port}
[realms]
  {REALM} = {{
    database_name = {directory}/principals
    key_stash_file = {directory}/stash
    acl_file = {directory}/kadm5.acl
    max_life = 10h
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  }}
"""
        )

    def _await_kdc(self, port: int) -> None:
        deadline = time.monotonic() + _READY_S_MAX
        while True:
            try:
                socket.create_connection((HOST, port), timeout=5).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self.directory / "kdc.out").read_text()
                time.sleep(0.05)
