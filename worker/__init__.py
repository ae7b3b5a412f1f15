"""The worker floor: Redis, the queue, the event log, and the runs that live in them."""
