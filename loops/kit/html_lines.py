"""The layout of a text that comes in pieces: words in lines, lines in paragraphs, rows of cells."""


class Lines:
    """Text that is laid out: words in lines, lines in paragraphs."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._breaks = 0
        self._lead = ""
        self._has_space = False
        # Nothing was said yet since an item or a cell began, so what it begins with breaks no line.
        self._is_fresh = False

    def words(self, text: str) -> None:
        """Add text whose whitespace says nothing but that words end."""
        if words := text.split():
            self.put(" ".join(words), spaced=text[0].isspace())
            self._has_space = text[-1].isspace()
        elif text:
            self._has_space = True

    def put(self, text: str, *, spaced: bool = False) -> None:
        """Add text as it is."""
        if self._pieces and self._breaks:
            self._pieces.append("\n" * self._breaks)
        elif self._pieces and (spaced or self._has_space):
            self._pieces.append(" ")
        self._pieces.append(f"{self._lead}{text}")
        self._breaks, self._lead, self._has_space, self._is_fresh = 0, "", False, False

    def aside(self, text: str) -> None:
        """Add a word that belongs to the one before it."""
        has_space = self._has_space
        self.put(text, spaced=True)
        self._has_space = has_space

    def part(self, breaks: int) -> None:
        """Let what follows begin on a line of its own, past so many line ends at least."""
        if breaks and not self._is_fresh:
            self._breaks, self._has_space = max(self._breaks, breaks), False

    def line_end(self) -> None:
        """Let what follows begin on the next line; a second one lets a line stay empty."""
        self.part(min(self._breaks + 1, 2))

    def enter(self, lead: str, breaks: int) -> None:
        """Begin an item, a heading or a row, which begins with `lead` if anything is in it."""
        self.part(breaks)
        self._lead, self._is_fresh = lead, True

    def leave(self) -> None:
        """End what was entered."""
        self._lead, self._is_fresh = "", False

    def cell(self) -> None:
        """Begin another cell of the row."""
        if not self._is_fresh:
            self._breaks = 0
        self.put("|", spaced=True)
        self._has_space = self._is_fresh = True

    def __len__(self) -> int:
        return len(self._pieces)

    def __str__(self) -> str:
        return "".join(self._pieces)
