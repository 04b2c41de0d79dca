"""Each hash covers the row before it, so nothing can be changed unseen."""

from hashlib import blake2b

from engine.log.chain import digest, genesis, link

HEADER = (1, "s", 1, "message.appended", 5, "ada", "say", None, None, None)


def test_a_hash_is_made_as_documented():
    previous, payload = genesis(b"log"), digest(b"{}")
    header = b'[1,"s",1,"message.appended",5,"ada","say",null,null,null]'
    assert link(previous, payload, HEADER) == blake2b(previous + payload + header, digest_size=32).digest()


def test_a_hash_changes_with_the_log_the_payload_and_every_column():
    first = link(genesis(b"log"), digest(b"{}"), HEADER)
    others = [link(genesis(b"other"), digest(b"{}"), HEADER), link(genesis(b"log"), digest(b"{ }"), HEADER)]
    for column in range(len(HEADER)):
        changed = [*HEADER]
        changed[column] = "another"
        others.append(link(genesis(b"log"), digest(b"{}"), tuple(changed)))
    assert len({first, *others}) == len(HEADER) + 3
