"""The conversations of SASL, with the examples of the RFCs and with brokers that are none."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

import pytest

from streamsapp.brokers.bounds import WrongAnswerError
from streamsapp.brokers.sasl.conversations import Conversation, bearer, plain
from streamsapp.brokers.sasl.scram import scram
from streamsapp.brokers.sasl.tokens import Tokens

#: The example of RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def believed(conversation: Conversation, *answers: bytes) -> list[bytes]:
    """All that the client says in a conversation that ends well."""
    said = [next(conversation), *(conversation.send(each) for each in answers[:-1])]
    with pytest.raises(StopIteration):
        conversation.send(answers[-1])
    return said


def example() -> Conversation:
    return scram("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_scram_says_what_the_example_of_the_rfc_says() -> None:
    assert believed(example(), CHALLENGE, SIGNATURE) == [FIRST, PROOF]


def test_a_broker_of_sha_512_that_knows_the_password_is_believed() -> None:
    conversation = scram("SCRAM-SHA-512", "a=b,c", "sésame")
    first = next(conversation).decode()
    assert "n=a=3Db=2Cc," in first
    challenge = f"r={first.rpartition('r=')[2]}x,s={base64.b64encode(b'salt').decode()},i=5000"
    final = conversation.send(challenge.encode()).decode().rpartition(",p=")[0]
    salted = hashlib.pbkdf2_hmac("sha512", "sésame".encode(), b"salt", 5000)
    key = hmac.new(salted, b"Server Key", "sha512").digest()
    signature = hmac.new(key, f"{first[3:]},{challenge},{final}".encode(), "sha512").digest()

    with pytest.raises(StopIteration):
        conversation.send(b"v=" + base64.b64encode(signature))


def test_each_client_has_a_nonce_of_its_own() -> None:
    assert len({next(scram("SCRAM-SHA-512", "user", "pencil")) for _ in range(100)}) == 100


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (CHALLENGE.replace(b"r=rO", b"r=RO"), "nonce"),
        (b"r=" + NONCE.encode() + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (CHALLENGE.replace(b"i=4096", b"i=4095"), "4095 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=999999999"), "999999999 iterations"),
        (CHALLENGE.replace(b"i=4096", b"i=" + b"9" * 5000), "no number"),
        (CHALLENGE.replace(b"i=4096", b"i=-1"), "no number"),
        (CHALLENGE.replace(b"s=W22Z", b"s=!!!"), "no salt"),
        (CHALLENGE.replace(b"s=W22ZaJ0SNY7soEsUEjb6gQ==", b"s="), "no salt"),
        (b"m=x," + CHALLENGE, "extension"),
        (CHALLENGE + b",i=8192", "twice"),
        (b"e=unknown-user", "unknown-user"),
        (b"\xff", "is not text"),
        (b"", "nonce"),
    ],
)
def test_a_challenge_that_no_broker_sends_is_refused(wrong: bytes, said: str) -> None:
    conversation = example()
    next(conversation)

    with pytest.raises(WrongAnswerError, match=said):
        conversation.send(wrong)


@pytest.mark.parametrize("wrong", [b"", b"v=", b"v=AAAA", SIGNATURE.replace(b"6rri", b"7rri"), b"e=other-error"])
def test_a_broker_that_does_not_know_the_password_is_not_believed(wrong: bytes) -> None:
    conversation = example()
    next(conversation)
    conversation.send(CHALLENGE)

    with pytest.raises(WrongAnswerError, match=r"signature|other-error"):
        conversation.send(wrong)


@pytest.mark.parametrize("whole", [CHALLENGE, SIGNATURE])
def test_no_part_of_an_answer_passes_for_all_of_it(whole: bytes) -> None:
    for cut in range(len(whole)):
        conversation = example()
        next(conversation)
        if whole is SIGNATURE:
            conversation.send(CHALLENGE)
            with pytest.raises(WrongAnswerError):
                conversation.send(whole[:cut])
            continue
        try:
            conversation.send(whole[:cut])  # a shorter nonce is none, and fewer iterations are too few
        except WrongAnswerError:
            continue
        pytest.fail(f"{whole[:cut]!r} was believed")


def test_plain_is_that_of_rfc_4616() -> None:
    assert believed(plain("tim", "tanstaaftanstaaf"), b"") == [b"\0tim\0tanstaaftanstaaf"]


class Fixed(Tokens):
    """Has the same token until it is forgotten."""

    forgotten = False

    def token(self, timeout: float) -> str:
        return "another" if self.forgotten else "vF9dft4qmT"

    def forget(self) -> None:
        self.forgotten = True


def test_a_token_is_shown_with_its_extensions_and_kept_while_it_is_believed() -> None:
    tokens = Fixed({"sasl.oauthbearer.extensions": "a=1,b=2"})

    assert believed(bearer(tokens, 1.0), b"") == [b"n,,\1auth=Bearer vF9dft4qmT\1a=1\1b=2\1\1"]
    assert not tokens.forgotten


def test_a_token_that_is_refused_is_not_shown_again() -> None:
    tokens = Fixed({})
    conversation = bearer(tokens, 1.0)
    next(conversation)

    assert conversation.send(b'{"status":"invalid_token"}') == b"\1"
    conversation.close()
    assert re.search(rb"another", next(bearer(tokens, 1.0)))
