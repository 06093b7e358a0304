"""The controller: drives a model over OpenRouter's Responses API, or Chat Completions, with tools.

`loop` decides and does nothing, `session` does what it says; `openrouter` speaks to the server, `responses` and `chat`
are its two wires. A conversation is kept in the form of Responses items, whichever wire it goes over.
"""
