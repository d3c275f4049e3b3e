"""Rule 13: the authority that signs certificates, requests and the list of those revoked.

Only `psofed keys` and clients with masks need this module, and the package `cryptography`.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from pathlib import Path
from typing import Any

from psofed.deploy import private
from psofed.errors import InputError
from psofed.extras import need

AUTHORITY_DAYS, DAYS = 3650, 825
AUTHORITY = "ca"
SECOND, DAY = datetime.timedelta(seconds=1), datetime.timedelta(days=1)


class Authority:
    """An authority in its folder: ca.pem and, where something is to be signed, ca.key."""

    def __init__(self, folder: Path, passphrase: Path | None = None) -> None:
        self.folder, self.x, self._passphrase = folder, Library(), passphrase
        path = folder / "ca.pem"
        try:
            self.certificate = self.x.x509.load_pem_x509_certificate(path.read_bytes())
        except (OSError, ValueError):
            right = "make one with `psofed keys init`"
            raise InputError(str(folder), "has no authority", right) from None
        self.key = self._open()

    @staticmethod
    def make(folder: Path, passphrase: Path | None = None) -> Authority:
        """A new authority; its key is written last, so that it is whole if it is there."""
        x = Library()
        secret = _read(passphrase)
        if (folder / "ca.key").exists():
            right = "give a new folder; a new authority would make all its certificates invalid"
            raise InputError(str(folder), "has an authority already", right)
        private.make_folder(folder)
        key, name = x.new_key(), x.name("psofed authority")
        builder = x.builder(name, name, key.public_key(), AUTHORITY_DAYS)
        builder = builder.add_extension(x.x509.BasicConstraints(True, 0), critical=True)
        builder = builder.add_extension(x.usage("key_cert_sign", "crl_sign"), critical=True)
        builder = builder.add_extension(x.subject(key.public_key()), critical=False)
        builder = builder.add_extension(x.issuer(key.public_key()), critical=False)
        pem = builder.sign(key, x.hashes.SHA256()).public_bytes(x.encoding.PEM)
        private.write(folder / "ca.pem", pem, private.PUBLIC)
        private.write(folder / "ca.key", x.key_bytes(key, secret))
        return Authority(folder, passphrase)

    def _open(self) -> Any:
        path = self.folder / "ca.key"
        text = private.read(path, "give the --folder of the authority, which has it")
        secret = _read(self._passphrase)
        try:
            return self.x.load_key(text.encode(), password=secret)
        except TypeError:  # one is given, and there is none; or the other way round
            if secret is None:
                right = "give --passphrase-file"
                raise InputError(str(path), "has a passphrase", right) from None
            right = "leave out --passphrase-file"
            raise InputError(str(path), "has no passphrase", right) from None
        except ValueError:
            found = "cannot be opened with this passphrase" if secret else "is no private key"
            raise InputError(str(path), found, "give the right file") from None

    def sign(self, name: str, public: Any, days: int, hosts: list[str] | None = None) -> bytes:
        """The certificate of `name` for a public key: of a broker's hosts, or of who connects."""
        x, last = self.x, self.certificate.not_valid_after_utc
        builder = x.builder(x.name(name), self.certificate.subject, public, days, last)
        builder = builder.add_extension(x.x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(x.usage("digital_signature"), critical=True)
        builder = builder.add_extension(x.subject(public), critical=False)
        builder = builder.add_extension(x.issuer(self.key.public_key()), critical=False)
        usage = x.x509.ExtendedKeyUsage([x.server_use if hosts else x.client_use])
        builder = builder.add_extension(usage, critical=False)
        if hosts:
            builder = builder.add_extension(x.names(hosts), critical=False)
        pem: bytes = builder.sign(self.key, x.hashes.SHA256()).public_bytes(x.encoding.PEM)
        return pem

    def revoke(self, serials: list[int]) -> None:
        """Put these on the list of revoked certificates, which the broker reads.

        Of two lists with the same time OpenSSL takes the one that it has read first: each list is
        therefore a second younger than the one before it. It never ends before the authority: the
        broker would refuse everybody.
        """
        x, path = self.x, self.folder / "crl.pem"
        now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        before = revoked(x, path)
        times = [now - DAY, *([] if before is None else [before.last_update_utc + SECOND])]
        builder = (
            x.x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(max(times))
            .next_update(self.certificate.not_valid_after_utc)
            .add_extension(x.issuer(self.key.public_key()), critical=False)
            .add_extension(x.x509.CRLNumber(_number(x, before) + 1), critical=False)
        )
        known = {entry.serial_number: entry for entry in before or ()}
        for serial in serials:
            entry = x.x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
            known.setdefault(serial, entry.build())
        for entry in known.values():
            builder = builder.add_revoked_certificate(entry)
        signed = builder.sign(self.key, x.hashes.SHA256())
        private.write(path, signed.public_bytes(x.encoding.PEM), private.PUBLIC)


def revoked(x: Library, path: Path) -> Any:
    """The list of revoked certificates in a file; None if there is no file."""
    try:
        return x.x509.load_pem_x509_crl(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        found = f"cannot be read: {getattr(error, 'strerror', None) or 'it is damaged'}"
        raise InputError(str(path), found, "take it from the broker or from a copy") from None


def _number(x: Library, crl: Any) -> int:
    if crl is None:
        return 0
    number: int = crl.extensions.get_extension_for_class(x.x509.CRLNumber).value.crl_number
    return number


def _read(passphrase: Path | None) -> bytes | None:
    if passphrase is None:
        return None
    text = private.read(passphrase, "put the passphrase there, on one line").strip()
    if not text:
        raise InputError(str(passphrase), "is empty", "put the passphrase there, on one line")
    return text.encode()


class Library:
    """The parts of `cryptography` that are used."""

    def __init__(self) -> None:
        need("cryptography", "deploy", "keys")
        from cryptography import exceptions, x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        self.x509, self.hashes, self.ec, self.ed25519 = x509, hashes, ec, ed25519
        self.x25519, self.hkdf = x25519, HKDF
        self.encoding, self._serialization = serialization.Encoding, serialization
        self.load_key = serialization.load_pem_private_key
        self.invalid = exceptions.InvalidSignature
        self.server_use = ExtendedKeyUsageOID.SERVER_AUTH
        self.client_use = ExtendedKeyUsageOID.CLIENT_AUTH
        self._common = NameOID.COMMON_NAME

    def new_key(self) -> Any:
        return self.ec.generate_private_key(self.ec.SECP256R1())

    def key_bytes(self, key: Any, passphrase: bytes | None = None) -> bytes:
        s = self._serialization
        lock = s.BestAvailableEncryption(passphrase) if passphrase else s.NoEncryption()
        data: bytes = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, lock)
        return data

    def public_bytes(self, public: Any) -> bytes:
        s = self._serialization
        data: bytes = public.public_bytes(s.Encoding.DER, s.PublicFormat.SubjectPublicKeyInfo)
        return data

    def name(self, text: str) -> Any:
        return self.x509.Name([self.x509.NameAttribute(self._common, text)])

    def names(self, hosts: list[str]) -> Any:
        return self.x509.SubjectAlternativeName([self._host(host) for host in hosts])

    def hosts(self, certificate: Any) -> list[str]:
        """Those that a broker's certificate is for."""
        kind = self.x509.SubjectAlternativeName
        try:
            found = certificate.extensions.get_extension_for_class(kind).value
        except self.x509.ExtensionNotFound:
            return []
        return [str(name.value) for name in found]

    def check_host(self, host: str) -> None:
        try:
            self._host(host)
            good = bool(re.fullmatch(r"[A-Za-z0-9_.*:-]+", host))
        except ValueError:
            good = False
        if not good:
            right = "use a name in ASCII such as broker.example, or an address"
            raise InputError("--host", f"is {host!r}", right)

    def _host(self, host: str) -> Any:
        try:
            return self.x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            return self.x509.DNSName(host)

    def usage(self, *uses: str) -> Any:
        """What a key may be used for, and nothing else."""
        names = (
            "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
            "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
        )  # fmt: skip
        return self.x509.KeyUsage(**{name: name in uses for name in names})

    def subject(self, public: Any) -> Any:
        return self.x509.SubjectKeyIdentifier.from_public_key(public)

    def issuer(self, public: Any) -> Any:
        return self.x509.AuthorityKeyIdentifier.from_issuer_public_key(public)

    def builder(self, subject: Any, issuer: Any, public: Any, days: int, last: Any = None) -> Any:
        """Of a certificate that is valid from yesterday, because a clock may be a little slow."""
        now = datetime.datetime.now(datetime.UTC)
        end = now + days * DAY
        return (
            self.x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(self.x509.random_serial_number())
            .not_valid_before(now - DAY * max(1, 1 - days))
            .not_valid_after(end if last is None else min(end, last))
        )
