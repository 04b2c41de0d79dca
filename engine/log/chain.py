"""Tamper evidence: each row's hash covers the row before it, so nothing can be changed unseen.

    digest = BLAKE2b-256(payload)
    hash   = BLAKE2b-256(previous hash ‖ digest ‖ header)
    header = JSON [position, stream, version, topic, time, actor, command, reason, event id in hex
             or null, metadata]

The first row's previous hash is BLAKE2b-256 of the log's own id, so rows cannot move between logs. An
erased payload leaves its digest in its tombstone: the chain still verifies. Cutting off the tail leaves a
shorter chain that verifies too; only a head kept elsewhere shows it.
"""

from hashlib import blake2b

import msgspec

_encode = msgspec.json.encode


def genesis(log_id: bytes) -> bytes:
    """Return the hash that stands before the first row."""
    return blake2b(log_id, digest_size=32).digest()


def digest(payload: bytes) -> bytes:
    """Return the digest of a payload, which survives its erasure."""
    return blake2b(payload, digest_size=32).digest()


def link(previous: bytes, payload_digest: bytes, header: tuple[object, ...]) -> bytes:
    """Return the hash of a row. The header is a row's columns up to the metadata, its event id as hex."""
    return blake2b(previous + payload_digest + _encode(header), digest_size=32).digest()
