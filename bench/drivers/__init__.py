"""One small program a queue: its client, told what to do by lines of JSON, and its worker.

They run in the queues' own environments, so they import the standard library, their queue, and
`tally` and `client` here; nothing of ours.
"""
