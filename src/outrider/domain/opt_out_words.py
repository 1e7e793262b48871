"""STOP, START and HELP: what a recipient's whole answer means, in the languages people use.

Only a message that is nothing but such a word counts, however it is written: "Stop!", "STOP." and
"arrêt" do, "please don't stop" does not. Longer replies are left to people.

English: 47 CFR 64.1200(a)(10), the words which the FCC names (stop, quit, end, revoke, opt out,
cancel, unsubscribe), and what US carriers ask for besides (CTIA Messaging Principles, 5.1.3:
STOPALL; START, UNSTOP, HELP, INFO). France: STOP, as article L34-5 CPCE is applied. Other
languages: the plain word for it. A word that people also use for something else in a reply ("no",
"fin" at the end of a story) is not in the table.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final


class OptOutWord(StrEnum):
    STOP = "stop"
    START = "start"
    HELP = "help"


STOP_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "en": (
        "stop", "stopall", "stop all", "quit", "end", "revoke", "opt out", "opt-out", "optout",
        "cancel", "unsubscribe",
    ),
    "de": ("stopp", "abmelden", "abbestellen", "austragen", "abmeldung", "kündigen"),
    "fr": ("arrêt", "arrêter", "arrêtez", "désabonner", "désinscrire", "se désabonner",
           "désabonnement", "désinscription", "résilier"),
    "es": ("baja", "darse de baja", "dar de baja", "cancelar", "parar", "alto", "detener",
           "anular suscripción", "cancelar suscripción"),
    "it": ("annulla", "annullare", "disiscrivi", "disiscrivimi", "cancellami", "ferma",
           "disdici", "cancella iscrizione"),
    "pt": ("parar", "pare", "sair", "cancelar", "descadastrar", "cancelar inscrição",
           "cancelar subscrição"),
    "nl": ("afmelden", "uitschrijven", "opzeggen", "stoppen"),
    "pl": ("rezygnuję", "wypisz", "wypisz mnie", "anuluj", "zrezygnuj", "koniec"),
    "cs": ("odhlásit", "zrušit", "odhlásit se"),
    "sk": ("odhlásiť", "zrušiť", "odhlásiť sa"),
    "da": ("afmeld", "frameld", "afmelding"),
    "sv": ("stoppa", "avsluta", "avregistrera", "avanmäl"),
    "no": ("avslutt", "meld av", "avmeld"),
    "fi": ("lopeta", "peruuta"),
    "hu": ("leiratkozás", "leiratkozom", "leállítás"),
    "ro": ("dezabonare", "dezabonează", "oprește"),
    "tr": ("dur", "ret", "iptal", "çık"),
    "el": ("διακοπή", "στοπ", "διαγραφή"),
    "ru": ("стоп", "отписаться", "отписка", "отмена"),
    "uk": ("стоп", "відписатися", "відписка"),
    "bg": ("стоп", "отпиши", "отписване"),
    "ar": ("توقف", "إلغاء", "الغاء", "قف", "إلغاء الاشتراك"),
    "he": ("הסר", "עצור", "הסרה", "הפסק"),
    "ja": ("停止", "配信停止", "ストップ", "解除", "退会"),
    "zh": ("停止", "退订", "退訂", "取消订阅", "取消訂閱"),
    "ko": ("수신거부", "중지", "해지", "그만"),
    "hi": ("रोकें", "बंद करें"),
    "vi": ("dừng", "hủy", "huỷ", "từ chối"),
    "id": ("berhenti",),
    "th": ("หยุด", "ยกเลิก"),
}  # fmt: skip

START_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "en": ("start", "unstop", "subscribe", "opt in", "opt-in", "optin", "resume"),
    "de": ("anmelden", "starten"),
    "fr": ("commencer", "reprendre", "s'abonner", "abonner"),
    "es": ("alta", "empezar", "iniciar", "suscribir", "comenzar"),
    "it": ("inizia", "iscriviti", "iscrivimi"),
    "pt": ("iniciar", "começar", "inscrever"),
    "nl": ("aanmelden", "starten"),
    "pl": ("zapisz mnie", "wznów"),
    "sv": ("starta",),
    "da": ("tilmeld",),
    "no": ("meld på",),
    "fi": ("aloita",),
    "ru": ("старт", "начать", "подписаться"),
    "uk": ("старт", "почати", "підписатися"),
    "tr": ("başla", "başlat"),
    "ja": ("再開", "スタート", "開始"),
    "zh": ("开始", "開始", "订阅", "訂閱"),
    "ko": ("시작",),
    "vi": ("bắt đầu",),
    "id": ("mulai",),
}

HELP_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "en": ("help", "info"),
    "de": ("hilfe",),
    "fr": ("aide",),
    "es": ("ayuda",),
    "it": ("aiuto",),
    "pt": ("ajuda",),
    "nl": ("hulp",),
    "pl": ("pomoc",),
    "cs": ("pomoc",),
    "sv": ("hjälp",),
    "da": ("hjælp",),
    "no": ("hjelp",),
    "fi": ("apua", "ohje"),
    "ru": ("помощь",),
    "uk": ("допомога",),
    "tr": ("yardım",),
    "ja": ("ヘルプ",),
    "zh": ("帮助", "幫助"),
    "ko": ("도움말",),
    "vi": ("trợ giúp",),
    "id": ("bantuan",),
}

READ_MAX_CHARACTERS: Final = 200
"""Longer than any such word; a longer reply need not be checked."""

# Letters that Unicode does not decompose into a plain letter and an accent.
_PLAIN_LETTERS = str.maketrans({"ł": "l", "ø": "o", "æ": "ae", "œ": "oe", "ı": "i", "đ": "d"})
_BETWEEN_WORDS = re.compile(r"[\s\-_]+")


def normalised(text: str) -> str:
    """Without case, accents, punctuation, symbols and surplus blanks."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    apart = unicodedata.normalize("NFKD", folded.translate(_PLAIN_LETTERS))
    spaced = _BETWEEN_WORDS.sub(" ", apart)
    kept = "".join(letter for letter in spaced if letter == " " or _is_letter(letter))
    return " ".join(unicodedata.normalize("NFC", kept).split())


def _is_letter(letter: str) -> bool:
    """Marks on non-Latin letters, such as Hindi vowels, are part of the word; accents, punctuation,
    symbols and invisible characters are not."""
    if unicodedata.combining(letter):
        return False
    return unicodedata.category(letter)[0] in "LNM" and not _is_variation(letter)


def _is_variation(letter: str) -> bool:
    """Characters that only select how an emoji is drawn."""
    return "\ufe00" <= letter <= "\ufe0f"


def _entries() -> Iterator[tuple[str, OptOutWord]]:
    tables = (
        (HELP_WORDS, OptOutWord.HELP),
        (START_WORDS, OptOutWord.START),
        # Last, so that a word which has both meanings in two languages stops.
        (STOP_WORDS, OptOutWord.STOP),
    )
    for table, meaning in tables:
        for words in table.values():
            for word in words:
                yield normalised(word), meaning


_MEANINGS: Final[Mapping[str, OptOutWord]] = dict(_entries())


def reading(text: str) -> OptOutWord | None:
    """What the whole message means; None if a person should read it."""
    if len(text) > READ_MAX_CHARACTERS:
        return None
    return _MEANINGS.get(normalised(text))
