"""The gateway: a caller's request in a provider's own protocol, answered round by round.

A round is a turn whose reply is kept frame by frame, word for word. Callbacks may take up its
calls, and have the model asked again; `loops.agentic` is the loop that does it. What the caller
sees of the rounds is a view of the run's events, made here too, and pure.
"""
