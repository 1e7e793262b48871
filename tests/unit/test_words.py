"""Words that users read: in one place each, in plain English, and one meaning a word."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.support.visible_texts import (
    command_sentences,
    console_sentences,
    fields_of,
    help_texts,
    python_texts,
)

from outrider.cli import texts

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "outrider"
CONSOLE = SOURCES / "console" / "js"
TEXTS = CONSOLE / "texts"
CLI = SOURCES / "cli"
DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "GLOSSARY.md",
    ROOT / "VERSIONING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
)

# Names that gave way to ordinary ones, as whole words of a file's or class's name.
FORMER_NAMES = frozenset(
    {"ear", "herald", "desk", "desks", "shelf", "told", "tell", "passage", "past", "said", "sight"}
    | {"fate", "hearing", "standing", "beginning", "moment", "moments", "drafter", "caller"}
    | {"enclosures", "housekeeper"}
)
# Unlike the others these are part of good names, such as `DeadLetter` and `event_routes`.
FORMER_WHOLE_NAMES = frozenset(
    {"letter", "order", "routes", "explainer", "route_planner", "route_plans", "step_executor"}
    | {"event_rehearser", "place", "places"}
)
# Names of the published API, which a client may have generated code from.
PUBLISHED = frozenset({"PhaseStanding", "TargetStanding"})
# What the former names became, and a name whose word has its ordinary meaning.
ORDINARY = frozenset({"item_drafter", "ItemDrafter", "gateway_caller", "GatewayCaller", "IfPast"})

IDIOMS = re.compile(
    r"\b(?:alerts? that stands?|no alert stands|anew|mend(?:ed|s)?|whoever|nobody's|is meant"
    r"|are meant|(?:is|are|was|were|be|been) told|tells? of|left out, the one|and I mean it"
    r"|wants? a key|is no server's|(?:why|how|as) (?:it|they) stands?|stands so"
    r"|who would be sent to|who was left over|left nobody over|it does not hold, or not yet"
    r"|may only look|cannot be gone|known to nobody|(?:is|are|was|were|be) written to"
    r"|(?:one|object|statement|role|file|kind|reader|message) an? (?:line|window|file|kind|group)"
    r"|goes on by itself|what is due)\b",
    re.IGNORECASE,
)


def _modules() -> list[Path]:
    return [path for path in sorted(CONSOLE.rglob("*.js")) if path.parent != TEXTS]


def _commands() -> list[Path]:
    return sorted(CLI.glob("*.py"))


# Months and units, a browser's own names, and a line for its developer tools.
@pytest.mark.parametrize("module", _modules(), ids=lambda path: path.name)
def test_the_consoles_sentences_are_in_the_folder_of_its_texts(module: Path) -> None:
    if module.name in ("format.js", "dom.js"):
        pytest.skip("months and units; names of the DOM")
    allowed = {"campaign_progress ignored"}
    written = console_sentences(module.read_text())
    assert [each for each in written if each.text not in allowed] == []


def test_a_sentence_in_a_page_is_found() -> None:
    page = """
      // Nothing is here yet.
      import { h } from "../dom.js";
      const pattern = /No "such" thing/;
      h("p", { class: "small muted" }, "No runs yet");
      button("Stop", { look: "small primary", title: `Stop ${name} now` });
    """
    assert [each.text for each in console_sentences(page)] == [
        "No runs yet",
        "Stop",
        "Stop ${name} now",
    ]


def _groups() -> dict[str, tuple[Path, set[str]]]:
    """By name of the group: the module that shows it, and its keys."""
    found = {}
    source = "".join(path.read_text() for path in sorted(TEXTS.glob("*.js")))
    for path, name, body in re.findall(
        r"/\*\* (\S+) \*/\nexport const (\w+) = \{\n(.*?)\n\};", source, re.DOTALL
    ):
        found[name] = (CONSOLE / path, set(re.findall(r"^  (\w+):", body, re.MULTILINE)))
    return found


def test_every_text_of_the_console_is_used_and_every_one_that_is_used_is_there() -> None:
    groups = _groups()
    assert len(groups) > 25
    for name, (module, keys) in groups.items():
        source = module.read_text()
        assert f"import {{ {name} as texts }} from" in source
        assert set(re.findall(r"\btexts\.(?!js\b)(\w+)", source)) == keys, name


@pytest.mark.parametrize("module", _commands(), ids=lambda path: path.name)
def test_what_commands_print_is_in_one_file(module: Path) -> None:
    if module.name in ("app.py", "demo_campaign.py"):
        pytest.skip("help, and the demo's own messages")
    # What pydantic says when a secret is written down.
    allowed = {"match pattern"}
    written = command_sentences(module.read_text())
    assert [each for each in written if each.text not in allowed] == []


def test_a_sentence_in_a_command_is_found() -> None:
    command = '''
def show(name: Annotated[str, typer.Option(help="The name that it was given.")]) -> None:
    """Show it, as it is."""
    out.print(f"[green]created[/green] {name} with a few recipients")
    print_rows(["last seen", "calls at once"], rows, "there are no rows yet")
    raise Conflict("it has not been started")
'''
    assert [each.text for each in command_sentences(command)] == [
        "[green]created[/green] {…} with a few recipients",
        "there are no rows yet",
        "it has not been started",
    ]


def test_every_text_of_the_commands_is_used_with_the_values_that_it_names() -> None:
    known = {
        (group.__name__, name): text
        for group in vars(texts).values()
        if isinstance(group, type)
        for name, text in vars(group).items()
        if not name.startswith("_")
    }
    used: set[tuple[str, str]] = set()
    for path in _commands():
        tree = ast.parse(path.read_text())
        given = {
            id(node.func.value): {keyword.arg for keyword in node.keywords}
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "format"
        }
        for node in ast.walk(tree):
            if place := _text_of(node):
                used.add(place)
                assert given.get(id(node), set()) == fields_of(known[place]), (path.name, place)
    assert used == set(known)


def _text_of(node: ast.AST) -> tuple[str, str] | None:
    """`texts.Group.NAME`, as its two names."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute)):
        return None
    group = node.value
    if isinstance(group.value, ast.Name) and group.value.id == "texts":
        return group.attr, node.attr
    return None


def _visible() -> Iterator[tuple[str, str]]:
    """Where, and what: everything that a user may read."""
    for path in sorted(SOURCES.rglob("*.py")):
        if path.is_relative_to(SOURCES / "testing"):
            continue
        where = str(path.relative_to(ROOT))
        for each in python_texts(path.read_text()):
            yield f"{where}:{each.line}", each.text
    for path in _commands():
        for each in help_texts(path.read_text()):
            yield f"{path.relative_to(ROOT)}:{each.line}", each.text
    for path in (*sorted(TEXTS.glob("*.js")), SOURCES / "console" / "index.html", *DOCUMENTS):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}", line


def test_what_users_read_is_plain_english() -> None:
    found = [(where, hit[0]) for where, text in _visible() if (hit := IDIOMS.search(text))]
    assert found == []


def test_an_idiom_is_found() -> None:
    assert IDIOMS.search("mend them and check again")
    assert IDIOMS.search("Events that a sink could not be told")
    assert not IDIOMS.search("Fix these, then run `outrider check` again.")


def _names() -> Iterator[tuple[Path, str]]:
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in (".py", ".js", ".sql"):
            yield path, path.stem
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and node.name not in PUBLISHED:
                    yield path, node.name


def _former(name: str) -> set[str]:
    if name in ORDINARY:
        return set()
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().strip("_")
    return set(FORMER_NAMES & set(snake.split("_")) | FORMER_WHOLE_NAMES & {snake})


def test_names_that_needed_the_glossary_do_not_come_back() -> None:
    found = [(str(path.relative_to(ROOT)), name) for path, name in _names() if _former(name)]
    assert found == []


def test_a_former_name_is_found() -> None:
    assert _former("PostgresShelf") == {"shelf"}
    assert _former("announcement_ear") == {"ear"}
    assert _former("Letter") == {"letter"}
    assert _former("DeadLetter") == set()
    assert _former("clear_years") == set()


def _glossary(text: str) -> list[str]:
    rows = re.findall(r"^\| (.+?) \| .+ \|$", text, re.MULTILINE)
    return [row for row in rows if row not in ("word", "---")]


def _sorted_by(word: str) -> str:
    return re.sub(r"[^a-z0-9 ]", "", word.lower())


def test_the_glossary_is_alphabetical_and_has_every_word_once() -> None:
    words = _glossary((ROOT / "GLOSSARY.md").read_text())
    assert len(words) > 80
    assert words == sorted(words, key=_sorted_by)
    assert len(set(words)) == len(words)


def test_event_and_step_are_always_qualified_in_the_glossary() -> None:
    page = (ROOT / "GLOSSARY.md").read_text()
    text = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    assert not {"event", "step", "letter", "place"} & set(_glossary(text))
    bare = re.findall(
        r"(?<!domain )(?<!campaign )(?<!run )(?<!lifecycle )(?<!message )"
        r"\bevents?\b(?! bus| router| log)",
        text,
    )
    assert bare == []
    assert re.findall(r"(?<!workflow )\bsteps?\b", text) == []


# Texts are always written with their module, `texts.Group`; payloads keep the names under which an
# engine's server knows them; models of the API are named for its clients.
NAMED_BY_THEIR_MODULE = ("cli/texts/", "engines/temporal/messages.py", "api/models/", "testing/")


def _public_classes() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCES.rglob("*.py")):
        where = path.relative_to(SOURCES).as_posix()
        if not where.startswith(NAMED_BY_THEIR_MODULE):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield node.name, where


def _defined_twice(classes: Iterable[tuple[str, str]]) -> set[str]:
    counted = Counter(name for name, _ in classes)
    return {name for name, times in counted.items() if times > 1}


def test_every_public_class_has_a_unique_name() -> None:
    classes = list(_public_classes())
    assert len(classes) > 500
    assert _defined_twice(classes) == set()


def test_a_class_that_is_defined_twice_is_found() -> None:
    assert _defined_twice([("Watcher", "a.py"), ("Relay", "b.py"), ("Watcher", "b.py")]) == {
        "Watcher"
    }
