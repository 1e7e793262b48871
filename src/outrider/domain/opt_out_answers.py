"""The answers to people who write STOP or HELP, in the language of the word they used.

One confirmation of a STOP is allowed and expected (47 CFR 64.1200(a)(12): it must confirm and
nothing else), and carriers ask for an answer to HELP that names the sender (CTIA Messaging
Principles, 5.1.2). So the texts say what happens next, and offer nothing.
"""

from collections.abc import Mapping
from typing import Final

from outrider.domain.opt_out_words import HELP_WORDS, STOP_WORDS, OptOutWord, normalised

ENGLISH: Final = "en"

STOP_ANSWERS: Final[Mapping[str, str]] = {
    "en": "You will get no more messages from us. Reply START to get them again.",
    "de": "Sie erhalten keine Nachrichten mehr von uns. Antworten Sie START, um sie wieder zu"
    " erhalten.",
    "fr": "Vous ne recevrez plus de messages de notre part. Répondez START pour les recevoir à"
    " nouveau.",
    "es": "Ya no recibirá más mensajes nuestros. Responda START para volver a recibirlos.",
    "it": "Non riceverà più nostri messaggi. Risponda START per riceverli di nuovo.",
    "pt": "Não receberá mais mensagens nossas. Responda START para voltar a recebê-las.",
    "nl": "U ontvangt geen berichten meer van ons. Antwoord START om ze weer te ontvangen.",
    "pl": "Nie otrzymasz od nas więcej wiadomości. Odpowiedz START, aby je znów otrzymywać.",
    "cs": "Již vám nebudeme posílat zprávy. Odpovězte START, pokud je chcete znovu dostávat.",
    "sk": "Už vám nebudeme posielať správy. Odpovedzte START, ak ich chcete znova dostávať.",
    "da": "Du får ikke flere beskeder fra os. Svar START for at få dem igen.",
    "sv": "Du får inga fler meddelanden från oss. Svara START för att få dem igen.",
    "no": "Du får ikke flere meldinger fra oss. Svar START for å få dem igjen.",
    "fi": "Et saa enää viestejä meiltä. Vastaa START, jos haluat niitä taas.",
    "hu": "Nem küldünk több üzenetet. Válaszoljon START szóval, ha újra kér.",
    "ro": "Nu veți mai primi mesaje de la noi. Răspundeți START pentru a le primi din nou.",
    "tr": "Bizden artık mesaj almayacaksınız. Yeniden almak için START yazın.",
    "el": "Δεν θα λαμβάνετε άλλα μηνύματα από εμάς. Απαντήστε START για να τα λαμβάνετε ξανά.",
    "ru": "Вы больше не будете получать наши сообщения. Ответьте START, чтобы получать их снова.",
    "uk": "Ви більше не отримуватимете наших повідомлень. Надішліть START,"
    " щоб отримувати їх знову.",
    "bg": "Повече няма да получавате съобщения от нас. Отговорете START, за да ги"
    " получавате отново.",
    "ar": "لن تصلك رسائل أخرى منا. أرسل START لاستلامها من جديد.",
    "he": "לא תקבלו מאיתנו הודעות נוספות. השיבו START כדי לקבל אותן שוב.",
    "ja": "今後メッセージはお送りしません。再開するには START と返信してください。",
    "zh": "您将不再收到我们的消息。回复 START 可重新接收。",
    "ko": "더 이상 메시지를 보내지 않습니다. 다시 받으려면 START라고 답장하세요.",
    "hi": "अब आपको हमारे संदेश नहीं मिलेंगे। फिर से पाने के लिए START लिखें।",
    "vi": "Bạn sẽ không nhận thêm tin nhắn từ chúng tôi. Trả lời START để nhận lại.",
    "id": "Anda tidak akan menerima pesan lagi dari kami. Balas START untuk menerimanya kembali.",
    "th": "คุณจะไม่ได้รับข้อความจากเราอีก ตอบ START เพื่อรับอีกครั้ง",
}

HELP_ANSWERS: Final[Mapping[str, str]] = {
    "en": "Reply STOP to get no more messages from us.",
    "de": "Antworten Sie STOP, um keine Nachrichten mehr von uns zu erhalten.",
    "fr": "Répondez STOP pour ne plus recevoir nos messages.",
    "es": "Responda STOP para no recibir más mensajes nuestros.",
    "it": "Risponda STOP per non ricevere più nostri messaggi.",
    "pt": "Responda STOP para não receber mais mensagens nossas.",
    "nl": "Antwoord STOP om geen berichten meer van ons te ontvangen.",
    "pl": "Odpowiedz STOP, aby nie otrzymywać od nas więcej wiadomości.",
    "cs": "Odpovězte STOP, pokud od nás už nechcete dostávat zprávy.",
    "sk": "Odpovedzte STOP, ak od nás už nechcete dostávať správy.",
    "da": "Svar STOP for ikke at få flere beskeder fra os.",
    "sv": "Svara STOP för att inte få fler meddelanden från oss.",
    "no": "Svar STOP for ikke å få flere meldinger fra oss.",
    "fi": "Vastaa STOP, jos et halua enää viestejä meiltä.",
    "hu": "Válaszoljon STOP szóval, ha nem kér több üzenetet.",
    "ro": "Răspundeți STOP pentru a nu mai primi mesaje de la noi.",
    "tr": "Bizden artık mesaj almamak için STOP yazın.",
    "el": "Απαντήστε STOP για να μη λαμβάνετε άλλα μηνύματα από εμάς.",
    "ru": "Ответьте STOP, чтобы больше не получать наши сообщения.",
    "uk": "Надішліть STOP, щоб більше не отримувати наших повідомлень.",
    "bg": "Отговорете STOP, за да не получавате повече съобщения от нас.",
    "ar": "أرسل STOP لعدم استلام رسائل أخرى منا.",
    "he": "השיבו STOP כדי לא לקבל מאיתנו הודעות נוספות.",
    "ja": "配信を停止するには STOP と返信してください。",
    "zh": "回复 STOP 可停止接收我们的消息。",
    "ko": "메시지를 그만 받으려면 STOP이라고 답장하세요.",
    "hi": "हमारे संदेश रोकने के लिए STOP लिखें।",
    "vi": "Trả lời STOP để không nhận thêm tin nhắn từ chúng tôi.",
    "id": "Balas STOP untuk tidak menerima pesan lagi dari kami.",
    "th": "ตอบ STOP เพื่อไม่รับข้อความจากเราอีก",
}

_WORDS: Final = {OptOutWord.STOP: STOP_WORDS, OptOutWord.HELP: HELP_WORDS}
_ANSWERS: Final = {OptOutWord.STOP: STOP_ANSWERS, OptOutWord.HELP: HELP_ANSWERS}


def default_answer(word: OptOutWord, written: str, language: str) -> str:
    """The answer to this STOP or HELP word. English words are used everywhere, so they are answered
    in the target's `language`, as are words of several languages."""
    return _ANSWERS[word][language_of(word, written) or language]


def language_of(word: OptOutWord, written: str) -> str | None:
    """The one language other than English that has this word; None if there is not just one."""
    plain = normalised(written)
    found = [
        language
        for language, words in _WORDS[word].items()
        if any(normalised(each) == plain for each in words)
    ]
    return found[0] if len(found) == 1 and found != [ENGLISH] else None
