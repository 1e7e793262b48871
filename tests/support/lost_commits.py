"""A connection to Postgres that loses answers to commits: it is committed, and nobody is told."""

import asyncio
import random
from contextlib import suppress

from tests.support.cut_line import PIECE_BYTES, CutLine

IDLE = b"Z\x00\x00\x00\x05I"
"""The end of an answer after which no transaction is open."""
OF_WRITES = (b"COMMIT\x00", b"INSERT 0 ", b"UPDATE ", b"DELETE ")


class LostCommits(CutLine):
    """`share` of the answers to what was committed are lost, and their connections with them."""

    def __init__(self, database: str, dice: random.Random, share: float) -> None:
        super().__init__(database)
        self._dice = dice
        self._share = share
        self.lost = 0

    async def _carry_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                if _is_of_a_commit(piece) and self._dice.random() < self._share:
                    self.lost += 1
                    return
                writer.write(piece)
                await writer.drain()


def _is_of_a_commit(answer: bytes) -> bool:
    return answer.endswith(IDLE) and any(each in answer for each in OF_WRITES)
