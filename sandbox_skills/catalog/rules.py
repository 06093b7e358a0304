"""The table of everything that can be wrong with a skill and its tools: stable codes. Pure data."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Literal

Mode = Literal["strict", "lenient"]
"""Strict refuses whatever breaks the specification; lenient refuses only what cannot be loaded."""


class Severity(StrEnum):
    """What a finding means: an error skips the skill, or only the tool it is about. The words are SARIF's levels."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


class Rule(Enum):
    """The table: code, lenient severity, whether it breaks the specification, field, summary, fix.

    Codes are stable: they stand in reports, baselines and suppressions. A rule that breaks the specification
    is an error in strict mode whatever its lenient severity.
    """

    # The formatter would give every cell a line of its own; a table reads best as rows.
    # fmt: off
    FILE_UNREADABLE = (
        "file-unreadable", _ERROR, True, "file", "cannot be read",
        "Check the path and its permissions.",
    )
    FILE_TOO_LARGE = ("file-too-large", _ERROR, True, "file", "is too large", "Move detail into references/.")
    FILE_EMPTY = ("file-empty", _ERROR, True, "file", "is empty", "Start with --- and name and description.")
    FILE_UTF16 = ("file-utf16", _ERROR, True, "file", "is UTF-16, not UTF-8", "Save the file as UTF-8.")
    FILE_LINK_AS_TEXT = (
        "file-link-as-text", _ERROR, True, "file", "holds only a path: a symlink that was stored as text",
        "Put the file itself there, or check out with core.symlinks=true.",
    )
    FILE_NOT_UTF8 = (
        "file-not-utf8", _WARNING, True, "file", "has bytes that are not UTF-8; they were replaced",
        "Save the file as UTF-8.",
    )
    FILE_CONTROL = (
        "file-control-characters", _WARNING, True, "file", "has control characters; they were removed",
        "Delete the control characters.",
    )
    FILE_NAME_CASE = (
        "file-name-case", _WARNING, True, "file", "is not spelled SKILL.md",
        "Rename the file to SKILL.md.",
    )
    HEADING_FIRST = (
        "frontmatter-heading-first", _ERROR, True, "frontmatter",
        "is missing: the file starts with a heading", "Put a block between two --- lines above the heading.",
    )
    IN_CODE_BLOCK = (
        "frontmatter-in-code-block", _ERROR, True, "frontmatter", "stands inside a Markdown code block",
        "Delete the ``` lines around the frontmatter.",
    )
    MISSING = (
        "frontmatter-missing", _ERROR, True, "frontmatter", "is missing: the first line is not ---",
        "Start the file with a line that is just ---.",
    )
    UNCLOSED = (
        "frontmatter-unclosed", _ERROR, True, "frontmatter", "has no closing --- line",
        "End the frontmatter with a line that is just ---.",
    )
    TOO_LARGE = (
        "frontmatter-too-large", _ERROR, True, "frontmatter", "is longer than 65,536 characters",
        "Move text into the body.",
    )
    LEADING_BLANK = (
        "frontmatter-leading-blank", _WARNING, True, "frontmatter", "comes after blank lines",
        "Delete the blank lines above the first ---.",
    )
    GLUED_FENCE = (
        "frontmatter-glued-fence", _WARNING, True, "frontmatter", "has text on its closing --- line",
        "Put a line break after the closing ---.",
    )
    YAML_INVALID = (
        "yaml-invalid", _ERROR, True, "frontmatter", "is not YAML",
        "Quote values that hold ': ' or '#'.",
    )
    YAML_NOT_MAPPING = (
        "yaml-not-mapping", _ERROR, True, "frontmatter", "is not a list of 'key: value' lines",
        "Write one 'key: value' a line.",
    )
    YAML_ALIAS = (
        "yaml-alias", _ERROR, True, "frontmatter", "uses a YAML alias (*name)",
        "Write the value out, or quote it.",
    )
    YAML_ANCHOR = (
        "yaml-anchor", _ERROR, True, "frontmatter", "uses a YAML anchor (&name)",
        "Delete the anchor, or quote it.",
    )
    YAML_TAG = (
        "yaml-tag", _ERROR, True, "frontmatter", "uses a YAML tag (!name)",
        "Delete the tag, or quote it.",
    )
    YAML_TOO_DEEP = (
        "yaml-too-deep", _ERROR, True, "frontmatter", "is nested more than 20 levels deep",
        "Flatten the value.",
    )
    KEY_DUPLICATE = (
        "key-duplicate", _WARNING, True, "frontmatter", "has a key twice; the last one counts",
        "Keep one.",
    )
    KEY_UNKNOWN = (
        "key-unknown", _NOTE, False, "frontmatter", "has keys that the specification does not name",
        "Move them below metadata.",
    )
    VALUE_QUOTED = (
        "value-quoted", _WARNING, True, "frontmatter",
        "is not YAML without quotes; taken as text", "Put the value in quotes.",
    )
    VALUE_RECOVERED = (
        "value-recovered", _WARNING, True, "frontmatter", "is a broken value; its line was taken as text",
        "Close the quote, and write \\ twice or use single quotes.",
    )
    VALUE_DROPPED = (
        "value-dropped", _WARNING, True, "frontmatter", "is a broken value; it was dropped",
        "Write the value as YAML.",
    )
    VALUE_ESCAPES = (
        "value-surrogate-escapes", _WARNING, True, "frontmatter", "spells a character as two \\u escapes",
        "Write the character itself.",
    )
    NAME_MISSING = (
        "name-missing", _WARNING, True, "name", "is missing; the directory's name is used",
        "Add a name.",
    )
    NAME_NOT_TEXT = (
        "name-not-text", _WARNING, True, "name", "is not text; the directory's name is used",
        "Write one word.",
    )
    NAME_LENGTH = ("name-length", _WARNING, True, "name", "is longer than 64 characters", "Shorten the name.")
    NAME_CHARACTERS = (
        "name-characters", _WARNING, True, "name", "may hold only lowercase letters, digits and hyphens",
        "Use lowercase letters, digits and single hyphens.",
    )
    NAME_NOT_ASCII = (
        "name-not-ascii", _NOTE, True, "name", "holds letters outside a-z",
        "Use a-z where other hosts must load it.",
    )
    NAME_HYPHENS = (
        "name-hyphens", _WARNING, True, "name", "starts or ends with a hyphen, or has two in a row",
        "Use single hyphens between words.",
    )
    NAME_MISMATCH = (
        "name-mismatch", _WARNING, True, "name", "is not the name of its directory",
        "Rename the directory or the skill.",
    )
    DESCRIPTION_MISSING = (
        "description-missing", _ERROR, True, "description", "is missing or blank",
        "Say what the skill does and when to use it.",
    )
    DESCRIPTION_NOT_TEXT = (
        "description-not-text", _WARNING, True, "description", "is not text; its parts were joined",
        "Write the description as one quoted text.",
    )
    DESCRIPTION_LENGTH = (
        "description-length", _WARNING, True, "description", "is longer than 1,024 characters",
        "Shorten it; move detail into the body.",
    )
    DESCRIPTION_MULTILINE = (
        "description-multiline", _WARNING, False, "description", "has more than one line; shown as one",
        "Use '>-' in place of '|'.",
    )
    DESCRIPTION_MARKUP = (
        "description-markup", _WARNING, False, "description", "holds markup; shown escaped",
        "Delete the tags.",
    )
    LICENSE_NOT_TEXT = ("license-not-text", _WARNING, True, "license", "is not text", "Write a licence name.")
    COMPATIBILITY_NOT_TEXT = (
        "compatibility-not-text", _WARNING, True, "compatibility", "is not text; written out as text",
        "Write one sentence.",
    )
    COMPATIBILITY_LENGTH = (
        "compatibility-length", _WARNING, True, "compatibility", "is longer than 500 characters",
        "Shorten it.",
    )
    METADATA_NOT_MAPPING = (
        "metadata-not-mapping", _WARNING, True, "metadata",
        "is not a list of 'key: text' lines; kept as it is", "Write 'key: text' lines below metadata.",
    )
    METADATA_NESTED = (
        "metadata-nested", _WARNING, True, "metadata", "holds values that are not text; written out as JSON",
        "Keep each value one text.",
    )
    TOOLS_NOT_TEXT = (
        "allowed-tools-not-text", _WARNING, True, "allowed-tools", "is neither text nor a list of texts",
        "Write the tools separated by spaces.",
    )
    BODY_EMPTY = (
        "body-empty", _WARNING, False, "body", "is empty",
        "Write instructions below the frontmatter.",
    )
    BODY_LONG = (
        "body-long", _NOTE, False, "body", "is longer than the 500 lines that are recommended",
        "Move detail into references/.",
    )
    SKILL_NESTED = (
        "skill-nested", _WARNING, False, "file", "lies inside another skill and is not loaded",
        "Move it beside the outer skill.",
    )
    SKILL_SHADOWED = (
        "skill-shadowed", _WARNING, False, "name", "is taken by another skill",
        "Rename one of the two.",
    )
    LINK_DANGLING = (
        "link-dangling", _WARNING, False, "file", "is a link to nothing",
        "Delete or repair the link.",
    )
    LINK_OUTSIDE_ROOTS = (
        "link-outside-roots", _WARNING, False, "file", "is a link to a directory outside the skill roots",
        "Name that directory as a root.",
    )
    LINK_LEAVES_SKILL = (
        "link-leaves-skill", _ERROR, True, "file", "is a link to a file outside its skill",
        "Copy the file into the skill.",
    )
    ROOT_NOT_DIRECTORY = (
        "root-not-directory", _WARNING, False, "root", "is not a directory",
        "Name the directory above.",
    )
    DIRECTORY_UNREADABLE = (
        "directory-unreadable", _WARNING, False, "root", "cannot be listed",
        "Check its permissions.",
    )
    SCAN_CAPPED = (
        "scan-capped", _WARNING, False, "root", "has too many directories; the rest was not looked at",
        "Name a smaller root, or raise skills.max_directories.",
    )
    SKILL_UNSAFE = (
        "skill-unsafe", _ERROR, True, "file", "cannot be staged for a sandbox",
        "Ship plain files, and links that stay inside the skill.",
    )
    MANIFEST_UNREADABLE = (
        "manifest-unreadable", _ERROR, True, "tools.json", "cannot be read",
        "Make it a regular file of the skill that can be read.",
    )
    MANIFEST_TOO_LARGE = (
        "manifest-too-large", _ERROR, True, "tools.json", "is too large", "Shorten it, or make several skills.",
    )
    MANIFEST_NOT_UTF8 = (
        "manifest-not-utf8", _ERROR, True, "tools.json", "is not UTF-8", "Save the file as UTF-8.",
    )
    MANIFEST_NOT_JSON = ("manifest-not-json", _ERROR, True, "tools.json", "is not JSON", "Correct the syntax.")
    MANIFEST_TOO_DEEP = (
        "manifest-too-deep", _ERROR, True, "tools.json", "is nested too deep", "Flatten the parameters.",
    )
    MANIFEST_KEY_DUPLICATE = (
        "manifest-key-duplicate", _WARNING, True, "tools.json", "has a key twice; the last one counts",
        "Keep one.",
    )
    MANIFEST_HALF_CHARACTER = (
        "manifest-half-character", _WARNING, False, "tools.json", "has half a surrogate pair; it was replaced",
        "Write the character itself.",
    )
    MANIFEST_NOT_ARRAY = (
        "manifest-not-array", _WARNING, True, "tools.json", "is an object, not an array of tools; its tools were taken",
        "Put the tools in an array at the top.",
    )
    MANIFEST_UNRELATED = (
        "manifest-unrelated", _WARNING, True, "tools.json", "declares no tools in any known form; it was ignored",
        "Write an array of tools.",
    )
    MANIFEST_TOO_MANY = (
        "manifest-too-many-tools", _WARNING, False, "tools.json", "has too many tools; the rest was not loaded",
        "Make several skills.",
    )
    TOOL_NOT_OBJECT = (
        "tool-not-object", _ERROR, True, "tools", "is not an object", "Write an object with name and description.",
    )
    TOOL_WRAPPED = (
        "tool-wrapped", _WARNING, True, "tools", "is written in a provider's form; it was unwrapped",
        "Write name, description, script and parameters side by side.",
    )
    TOOL_KEY_UNKNOWN = (
        "tool-key-unknown", _NOTE, False, "tools", "has keys that the specification does not name",
        "Delete them.",
    )
    TOOL_NAME_MISSING = ("tool-name-missing", _ERROR, True, "name", "is missing or not text", "Add a name.")
    TOOL_NAME_INVALID = (
        "tool-name-invalid", _ERROR, True, "name", "is not a tool name of at most 64 characters",
        "Start with a-z; go on with a-z, 0-9 and underscores.",
    )
    TOOL_NAME_DUPLICATE = (
        "tool-name-duplicate", _ERROR, True, "name", "is taken by a tool above", "Rename one of the two.",
    )
    TOOL_NAME_RESERVED = (
        "tool-name-reserved", _ERROR, True, "name", "is the name of a built-in tool", "Rename the tool.",
    )
    TOOL_DESCRIPTION_MISSING = (
        "tool-description-missing", _ERROR, True, "description", "is missing, blank or not text",
        "Say what the tool does.",
    )
    TOOL_DESCRIPTION_LENGTH = (
        "tool-description-length", _WARNING, False, "description", "is longer than 1,024 characters; it was cut",
        "Shorten it; move detail into SKILL.md.",
    )
    TOOL_SCRIPT_INVALID = (
        "tool-script-invalid", _ERROR, True, "script", "is not a path inside the skill",
        "Write a path relative to the skill's directory.",
    )
    TOOL_SCRIPT_MISSING = (
        "tool-script-missing", _ERROR, True, "script", "is not a file of the skill", "Add the file.",
    )
    TOOL_PARAMETERS_INVALID = (
        "tool-parameters-invalid", _ERROR, True, "parameters", "is not an object of at most 100 parameters",
        "Write 'name: definition' pairs.",
    )
    TOOL_PARAMETERS_SCHEMA = (
        "tool-parameters-schema", _WARNING, True, "parameters", "is a whole JSON Schema; its properties were taken",
        "Write the properties only, and optional where a parameter is not required.",
    )
    PARAMETER_NAME = (
        "parameter-name", _ERROR, True, "parameters", "has a name that no provider takes",
        "Use at most 64 of a-z, A-Z, 0-9, '_', '.' and '-'.",
    )
    PARAMETER_WORK_DIR = (
        "parameter-work-dir", _WARNING, True, "parameters", "is given by the runtime; it was dropped",
        "Do not declare __workDir.",
    )
    PARAMETER_NOT_OBJECT = (
        "parameter-not-object", _ERROR, True, "parameters", "is not an object",
        "Write an object with type and description.",
    )
    PARAMETER_TYPE = (
        "parameter-type", _ERROR, True, "parameters", "has no type that JSON Schema knows",
        "Use string, number, boolean, object or array.",
    )
    PARAMETER_TYPE_EXTRA = (
        "parameter-type-extra", _WARNING, True, "parameters", "has a type beyond the five of the specification",
        "Use string, number, boolean, object or array.",
    )
    PARAMETER_DESCRIPTION = (
        "parameter-description", _WARNING, True, "parameters", "has no description", "Say what it means.",
    )
    PARAMETER_ENUM = (
        "parameter-enum", _ERROR, True, "parameters", "has an enum that is no array of values of its type",
        "List at least one value of the parameter's type.",
    )
    PARAMETER_OPTIONAL = (
        "parameter-optional", _WARNING, True, "parameters", "has an optional that is not true or false",
        "Write true or false.",
    )
    PARAMETER_KEYWORD = (
        "parameter-keyword", _WARNING, True, "parameters", "has JSON Schema keywords that are not used here",
        "Say it in the description, and check it in the handler.",
    )
    TOOL_SHADOWED = (
        "tool-shadowed", _WARNING, False, "name", "is taken by a tool of a skill that was loaded later",
        "Rename one of the two.",
    )
    # fmt: on

    def __init__(
        self,
        code: str,
        severity: Severity,
        breaks_spec: bool,  # noqa: FBT001 — likewise
        field: str,
        summary: str,
        fix: str,
    ) -> None:
        self.code = code
        self.severity = severity
        self.breaks_spec = breaks_spec
        self.field = field
        self.summary = summary
        self.fix = fix

    def severity_in(self, mode: Mode) -> Severity:
        """Returns what this rule means in a mode."""
        return Severity.ERROR if mode == "strict" and self.breaks_spec else self.severity
