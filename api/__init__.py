"""The upper floor: HTTP in front of the queue. It accepts runs, and relays their events."""
