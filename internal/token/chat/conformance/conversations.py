"""Conversations the real templates are compared over."""

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "Tells the weather <now> at a place & time, in \"plain\" words.",
        "parameters": {"type": "object", "properties": {
            "place": {"type": "string", "description": "Town, e.g. Zürich or 東京"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
            "days": {"type": "integer", "minimum": 1, "maximum": 10},
            "detail": {"type": ["number", "null"], "default": 0.5},
            "tags": {"type": "array", "items": {"type": "string"}},
            "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}},
                      "required": ["lat", "lon"]},
        }, "required": ["place"]}}},
    {"type": "function", "function": {
        "name": "noop", "description": "Does nothing.",
        "parameters": {"type": "object", "properties": {}}}},
]
SIMPLE_TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "Town"},
        "days": {"type": "array", "items": {"type": "integer"}, "description": "Which days"},
        "deep": {"type": "object", "description": "More", "properties": {"x": {"type": "number"}}}},
        "required": ["place"]}, "return": {"type": "string", "description": "Words"}}}]
FLAT_TOOLS = [{"name": "search", "description": "Looks things up.", "parameter_definitions": {
    "query": {"description": "What to look for", "type": "str", "required": True},
    "limit": {"description": "How many", "type": "int", "required": False}}}]


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(arguments, content="", ident="abcdefgh9"):
    return assistant(content, tool_calls=[
        {"id": ident, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}])


def result(content, ident="abcdefgh9"):
    return {"role": "tool", "name": "get_weather", "tool_call_id": ident, "content": content}


ARGS = {"place": "Zürich", "days": 3, "detail": None, "tags": ["a", "b'c"], "exact": True, "x": 1.5e-7,
        "where": {"lat": 47.0, "lon": -8.25}}
TWO_CALLS = assistant("", tool_calls=[
    {"id": "aaaaaaaa1", "type": "function", "function": {"name": "get_weather", "arguments": {"place": "A"}}},
    {"id": "aaaaaaaa2", "type": "function", "function": {"name": "noop", "arguments": {}}}])
TURNS = [user("Hi there"), assistant("Hello!  \n"), user("  And\tagain?\n")]
THOUGHT = [user("q1"), assistant("<think>\nhm, well\n</think>\n\nanswer one"), user("q2"),
           assistant("answer two", reasoning_content="because\nso"), user("q3")]
PARTS = [user([{"type": "text", "text": "What is this? "}, {"type": "image"},
               {"type": "text", "text": " Say."}])]

CONVERSATIONS = {
    "user": {"messages": [user("Tell me a joke about {{ braces }} & <tags>.")]},
    "system": {"messages": [system(" You are terse. "), user("Ünïcödé 你好 🎉?")]},
    "multi-turn": {"messages": TURNS},
    "system-multi-turn": {"messages": [system("Be kind."), *TURNS, assistant("end"), user("")]},
    "ends-with-assistant": {"messages": [system("S"), user("u"), assistant("The answer is")]},
    "two-users": {"messages": [user("a"), user("b")]},
    "empty": {"messages": []},
    "parts": {"messages": PARTS},
    "parts-system": {"messages": [system([{"type": "text", "text": "sys"}]), *PARTS,
                                  assistant([{"type": "text", "text": "seen"}]), user("ok")]},
    "tools": {"messages": [user("Weather?")], "tools": TOOLS},
    "tools-simple": {"messages": [system("S"), user("Weather?"), call({"place": "B"}), result("21")],
                     "tools": SIMPLE_TOOLS},
    "functions": {"messages": [user("u"), assistant("a"), user("v")], "tools": SIMPLE_TOOLS,
                  "functions": "[get_weather]", "datetime": "today"},
    "tools-system": {"messages": [system("Use tools."), user("Weather?")], "tools": TOOLS},
    "tool-call-dict": {"messages": [user("Weather?"), call(ARGS), result("{\"temp\": 21.0}")], "tools": TOOLS},
    "tool-call-string": {"messages": [user("Weather?"), call("{\"place\": \"Zürich\"}"), result("warm"),
                                      assistant("It is warm."), user("thanks")], "tools": TOOLS},
    "tool-call-null-content": {"messages": [user("w"), call(ARGS, None), result("x"), user("y")], "tools": TOOLS},
    "tool-call-no-content": {"messages": [user("w"), {k: v for k, v in call(ARGS).items() if k != "content"},
                                          result("x")], "tools": TOOLS},
    "tool-calls-two": {"messages": [user("w"), TWO_CALLS, result("1", "aaaaaaaa1"), result("2", "aaaaaaaa2"),
                                    assistant("done")], "tools": TOOLS},
    "tool-call-no-tools": {"messages": [user("w"), call({"place": "B"}, "let me see"), result({"temp": 3})]},
    "flat-tools": {"messages": [user("Look up cats")], "tools": FLAT_TOOLS},
    "documents": {"messages": [user("q")], "documents": [{"title": "T1", "text": "body one"},
                                                         {"title": "T2", "text": "body two"}]},
    "thinking": {"messages": THOUGHT},
    "thinking-off": {"messages": THOUGHT, "enable_thinking": False, "thinking": False},
    "thinking-on": {"messages": [system("S"), *THOUGHT], "enable_thinking": True, "thinking": True,
                    "reasoning_effort": "high"},
    "thinking-tools": {"messages": [*THOUGHT, call(ARGS), result("ok")], "tools": TOOLS, "enable_thinking": True},
    "developer": {"messages": [{"role": "developer", "content": "dev says"}, user("u")]},
    "unknown-role": {"messages": [{"role": "narrator", "content": "once"}, user("u")]},
    "no-bos": {"messages": [user("u")], "bos_token": "", "eos_token": "<|end|>"},
    "date-given": {"messages": [system("S"), user("u")], "date_string": "1 Jan 2020", "tools_in_user_message": False,
                   "tools": TOOLS},
}
